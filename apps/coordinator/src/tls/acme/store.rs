//! The files of ACME in the state directory: the key of the account, and the certificate with its key in one file, so that both change in one step.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use taut_base::encode_base64;
use zeroize::Zeroizing;

use super::super::issue::CertificateKey;
use super::super::{CertificateFacts, Pair};

/// Directory in the state directory.
const DIRECTORY: &str = "acme";

/// Name of the file with the account's key, and of that with the certificate.
const ACCOUNT: &str = "account.pem";
const CERTIFICATE: &str = "certificate.pem";

/// Beginning of the line that names the server of a certificate.
const SERVER: &str = "# from ";

/// The files.
#[derive(Clone)]
pub(super) struct AcmeStore(PathBuf);

impl AcmeStore {
    pub(super) fn new(state: &Path) -> Self {
        Self(state.join(DIRECTORY))
    }

    /// Returns the file of the certificate.
    pub(super) fn certificate(&self) -> PathBuf {
        self.0.join(CERTIFICATE)
    }

    /// Returns the stored certificate, and the URL of the server's directory that it is from. Returns `None` if there is none that can be used.
    pub(super) fn load(&self) -> Option<(Pair, String)> {
        let text = Zeroizing::new(fs::read(self.certificate()).ok()?);
        let server = std::str::from_utf8(&text).ok()?.lines().next()?.strip_prefix(SERVER)?.to_owned();
        Some((parse(&text).ok()?, server))
    }

    /// Stores a certificate, and returns it.
    pub(super) fn save(&self, chain: &[u8], key: &CertificateKey, server: &str) -> Result<Pair, String> {
        let head = format!("{SERVER}{server}\n");
        let text = Zeroizing::new([head.as_bytes(), chain, b"\n", pem(key.pkcs8()).as_bytes()].concat());
        let pair = parse(&text)?;
        self.write(CERTIFICATE, &text).map_err(|error| format!("{} cannot be written: {error}", self.0.display()))?;
        Ok(pair)
    }

    /// Returns the key of the account, which is made if there is none, in PKCS #8 form.
    pub(super) fn account(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = self.0.join(ACCOUNT);
        match fs::read(&path).map(Zeroizing::new) {
            Ok(text) => match PrivateKeyDer::from_pem_slice(&text) {
                Ok(PrivateKeyDer::Pkcs8(key)) => Ok(Zeroizing::new(key.secret_pkcs8_der().to_vec())),
                _ => Err(format!("{} is damaged; delete it, and another account is made", path.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = CertificateKey::generate()?;
                self.write(ACCOUNT, pem(key.pkcs8()).as_bytes())
                    .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
                Ok(Zeroizing::new(key.pkcs8().to_vec()))
            }
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        }
    }

    /// Writes a file in one step, readable by the owner only.
    fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        if !self.0.exists() {
            DirBuilder::new().mode(0o700).create(&self.0)?;
        }
        let new = self.0.join(format!("{name}.new"));
        // An interrupted write may have left this file behind, with another mode.
        if new.exists() {
            fs::remove_file(&new)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, self.0.join(name))?;
        File::open(&self.0)?.sync_all()
    }
}

/// Parses a chain and its key.
fn parse(text: &[u8]) -> Result<Pair, String> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let facts = chain.first().and_then(|first| CertificateFacts::read(first));
    let facts = facts.ok_or("the server's answer is no chain of certificates")?;
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|error| error.to_string())?;
    Pair::new(chain, key, facts).map_err(|error| error.to_string())
}

/// Returns a key in PEM form (RFC 7468).
fn pem(pkcs8: &[u8]) -> Zeroizing<String> {
    let base64 = Zeroizing::new(encode_base64(pkcs8));
    let mut text = Zeroizing::new(String::from("-----BEGIN PRIVATE KEY-----\n"));
    for (place, letter) in base64.chars().enumerate() {
        if place > 0 && place.is_multiple_of(64) {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push_str("\n-----END PRIVATE KEY-----\n");
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::tests::Directory;

    #[test]
    fn the_account_stays_the_same_and_files_are_private() {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        let store = AcmeStore::new(&directory.0);
        let account = store.account().unwrap();
        assert_eq!(store.account().unwrap(), account);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.0), mode(&store.0.join(ACCOUNT))), (0o700, 0o600));
        fs::write(store.0.join(ACCOUNT), "x").unwrap();
        assert!(store.account().unwrap_err().contains("delete it"));
    }

    #[test]
    fn a_stored_certificate_is_found_again_with_its_server() {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        let store = AcmeStore::new(&directory.0);
        assert!(store.load().is_none());
        let (key, other) = (CertificateKey::generate().unwrap(), CertificateKey::generate().unwrap());
        let pkcs8 = key.pkcs8().to_vec();
        let names = [String::from("taut.example")];
        let pair = key.self_signed(&names, Duration::from_secs(1_800_000_000), Duration::from_secs(60), None).unwrap();
        let chain = pair.certified.cert[0].to_vec();
        let chain = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", encode_base64(&chain));
        assert!(store.save(chain.as_bytes(), &other, "https://a").is_err(), "another key");
        assert!(store.load().is_none());
        let key = CertificateKey::from_pkcs8(&pkcs8).unwrap();
        store.save(chain.as_bytes(), &key, "https://a").unwrap();
        let (found, server) = store.load().unwrap();
        assert_eq!((found.facts.names, server.as_str()), (pair.facts.names, "https://a"));
    }
}
