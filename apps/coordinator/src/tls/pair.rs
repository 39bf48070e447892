//! A certificate chain and its key, from two PEM files.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use taut_relay_server::open_regular;
use zeroize::Zeroizing;

use super::x509::CertificateFacts;

/// Largest file, 1 MiB: a chain of certificates has a few KiB.
const LARGEST: u64 = 1 << 20;

/// Bits of a key file's mode that let users outside of the file's group read it, or anyone but its owner change it. Debian gives keys to the group `ssl-cert`.
const OPEN: u32 = 0o027;

/// The two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    pub(crate) facts: CertificateFacts,
}

/// The reason why a pair cannot be used: the file, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairError(String);

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells whether files were changed: their inodes, sizes and times of modification.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp([Option<[u64; 5]>; 2]);

impl PairFiles {
    /// Reads both files, and checks that they belong together.
    pub(crate) fn read(&self) -> Result<Pair, PairError> {
        let (chain, key) = (read(&self.certificate)?, read(&self.key)?);
        Pair::parse(&chain, &key, self)
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp([&self.certificate, &self.key].map(|path| {
            let file = std::fs::metadata(path).ok()?;
            let times = [file.mtime(), file.mtime_nsec()].map(i64::cast_unsigned);
            Some([file.dev(), file.ino(), file.size(), times[0], times[1]])
        }))
    }

    /// Returns the command that takes the key from other users, if its mode gives them access.
    pub(crate) fn open_to_others(&self) -> Option<String> {
        let mode = std::fs::metadata(&self.key).ok()?.mode();
        (mode & OPEN != 0).then(|| format!("chmod 640 {}", self.key.display()))
    }
}

impl Pair {
    /// Parses both texts. `files` is for messages.
    fn parse(chain: &[u8], key: &[u8], files: &PairFiles) -> Result<Self, PairError> {
        let wrong = |path: &Path, what: &str| PairError(format!("{} {what}", path.display()));
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(&files.certificate, &format!("is damaged: {error}; copy it again")))?;
        let Some(first) = chain.first() else {
            let what = "contains no certificate in PEM form (`-----BEGIN CERTIFICATE-----`); name the file of the whole chain, the server's own certificate first";
            return Err(wrong(&files.certificate, what));
        };
        let facts = CertificateFacts::read(first).ok_or_else(|| {
            wrong(
                &files.certificate,
                "contains a certificate that cannot be read; copy it again, or have it issued again",
            )
        })?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            let what = "contains no private key in PEM form (`-----BEGIN PRIVATE KEY-----`); a key with a passphrase cannot be used: write one without by `openssl pkey`";
            wrong(&files.key, what)
        })?;
        Self::new(chain, key, facts).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = files.certificate.display();
                wrong(&files.key, &format!("does not fit the first certificate in {certificate}; name the key for which it was issued, and put the server's own certificate first"))
            }
            other => wrong(&files.key, &format!("cannot be used: {other}; make an ECDSA key on P-256, or an RSA key of 2048 bits")),
        })
    }

    /// Returns a pair that was made here. It is not checked: a certificate for a check by TLS-ALPN-01 has an extension that no client accepts.
    pub(super) fn unchecked(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        facts: CertificateFacts,
    ) -> Result<Self, rustls::Error> {
        let key = ring::default_provider().key_provider.load_private_key(key)?;
        Ok(Self { certified: Arc::new(CertifiedKey::new(chain, key)), facts })
    }

    /// Returns a pair whose facts are known already, after the check that its two parts belong together.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        facts: CertificateFacts,
    ) -> Result<Self, rustls::Error> {
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())?;
        Ok(Self { certified: Arc::new(certified), facts })
    }
}

/// Reads a file that may contain a key.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, PairError> {
    let failed = |error: io::Error| {
        let todo = match error.kind() {
            io::ErrorKind::NotFound => "name the files by --tls-cert and --tls-key",
            io::ErrorKind::PermissionDenied => "let the coordinator's user read it, for example by its group",
            _ => "name another file",
        };
        PairError(format!("{} cannot be read: {error}; {todo}", path.display()))
    };
    let mut bytes = Zeroizing::new(Vec::new());
    open_regular(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(PairError(format!(
            "{} is larger than 1 MiB, so it is neither certificate nor key; name another file",
            path.display()
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/https").join(name)
    }

    fn read(certificate: &Path, key: &Path) -> Result<Pair, String> {
        let files = PairFiles { certificate: certificate.into(), key: key.into() };
        files.read().map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_is_read_and_every_failure_names_its_file_and_what_to_do() {
        let (good, key) = (file("good.pem"), file("server.key"));
        assert_eq!(read(&good, &key).unwrap().facts.names, ["127.0.0.1", "localhost"]);
        let missing = file("missing.pem");
        for (certificate, key, named, words) in [
            (&missing, &key, &missing, "name the files by --tls-cert and --tls-key"),
            (&good, &missing, &missing, "name the files by --tls-cert and --tls-key"),
            (&key, &key, &key, "contains no certificate in PEM form"),
            (&good, &good, &good, "contains no private key in PEM form"),
            (&file("other.pem"), &key, &key, "does not fit the first certificate in"),
            (&file("main.rs"), &key, &file("main.rs"), "contains no certificate"),
            (&file(""), &key, &file(""), "cannot be read"),
        ] {
            let found = read(certificate, key).unwrap_err();
            assert!(found.starts_with(&named.display().to_string()) && found.contains(words), "{found}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_reported_and_one_of_a_group_is_not() {
        let key = std::env::temp_dir().join(format!("taut-key-{}", std::process::id()));
        fs::write(&key, "").unwrap();
        let files = PairFiles { certificate: file("good.pem"), key: key.clone() };
        let open = [0o600, 0o640, 0o644, 0o660].map(|mode| {
            fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
            files.open_to_others().is_some()
        });
        assert_eq!(open, [false, false, true, true]);
        let before = files.stamp();
        assert_eq!(before, files.stamp());
        fs::write(&key, "more").unwrap();
        assert_ne!(before, files.stamp());
        fs::remove_file(&key).unwrap();
        assert_ne!(before, files.stamp());
    }
}
