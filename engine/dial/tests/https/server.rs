//! An https server for one question, with a certificate of its own authority.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use taut_base::encode_base64;
use taut_dial::{Broken, fetch};

/// The first and last year of a certificate.
pub(crate) type Years = (i32, i32);

/// Years around every test.
pub(crate) const ALWAYS: Years = (1990, 2200);

/// What the server answers.
pub(crate) const ANSWER: &[u8] = b"{\"schema\":1}";

/// A server to start.
pub(crate) struct Server {
    /// The years of its certificate.
    pub(crate) years: Years,
    /// The key that signs its certificate.
    pub(crate) authority: KeyPair,
    /// Its own key.
    pub(crate) key: KeyPair,
    /// The key that it signs the handshake with, if it does not have its own.
    pub(crate) signs_with: Option<KeyPair>,
    /// The name in its certificate.
    pub(crate) name: &'static str,
    /// The key of an authority that its authority vouches for, and that signs its certificate instead.
    pub(crate) intermediate: Option<KeyPair>,
    /// Changes of its certificate, and of that of the authority in between.
    pub(crate) changes: [fn(&mut CertificateParams); 2],
    /// How many authorities of one name, each of which could have signed every other, it sends, too; one of them signs its certificate.
    pub(crate) crowd: usize,
    /// The curves on which it agrees on keys.
    pub(crate) groups: Vec<&'static dyn SupportedKxGroup>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            years: ALWAYS,
            authority: KeyPair::generate().unwrap(),
            key: KeyPair::generate().unwrap(),
            signs_with: None,
            name: "localhost",
            intermediate: None,
            changes: [|_| {}; 2],
            crowd: 0,
            groups: ring::default_provider().kx_groups,
        }
    }
}

impl Server {
    /// Starts the server and asks it. The node trusts its authority, or another one with the same name.
    pub(crate) fn ask(self, trust: Trust) -> Result<Vec<u8>, Broken> {
        let (url, file) = self.serve(trust);
        let answer = fetch(&url.parse().unwrap(), "/key", &[Path::new(&file)]);
        std::fs::remove_file(file).unwrap();
        answer
    }

    /// Returns the URL, and the file of the authority.
    pub(crate) fn serve(self, trust: Trust) -> (String, PathBuf) {
        let params = |names: &[&str], (first, last): Years| {
            let mut params =
                CertificateParams::new(names.iter().map(|name| String::from(*name)).collect::<Vec<_>>()).unwrap();
            (params.not_before, params.not_after) = (date_time_ymd(first, 1, 1), date_time_ymd(last, 1, 1));
            params
        };
        let mut authority = params(&[], ALWAYS);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let trusted = match trust {
            Trust::Its => authority.self_signed(&self.authority).unwrap(),
            Trust::Another => authority.self_signed(&KeyPair::generate().unwrap()).unwrap(),
        };
        let mut issuer = Issuer::new(authority, self.authority);
        let mut intermediates = Vec::new();
        if let Some(key) = self.intermediate {
            let mut between = params(&[], ALWAYS);
            between.distinguished_name.push(DnType::CommonName, "intermediate");
            between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            self.changes[1](&mut between);
            intermediates.push(between.signed_by(&key, &issuer).unwrap().der().clone());
            issuer = Issuer::new(between, key);
        }
        for _ in 0..self.crowd {
            let key = KeyPair::generate().unwrap();
            let mut one = params(&[], ALWAYS);
            one.distinguished_name.push(DnType::CommonName, "crowd");
            one.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            intermediates.push(one.self_signed(&key).unwrap().der().clone());
            issuer = Issuer::new(one, key);
        }
        let mut own = params(&[self.name], self.years);
        self.changes[0](&mut own);
        let certificate = own.signed_by(&self.key, &issuer).unwrap();
        let file = file();
        let text = encode_base64(trusted.der());
        std::fs::write(&file, format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")).unwrap();
        let signs_with = self.signs_with.unwrap_or(self.key);
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signs_with.serialize_der()));
        let chain = [vec![certificate.der().clone()], intermediates].concat();
        // Not by `with_single_cert`, which refuses a key that is not the certificate's.
        let certified = CertifiedKey::new(chain, ring::sign::any_supported_type(&private).unwrap());
        let provider = CryptoProvider { kx_groups: self.groups, ..ring::default_provider() };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified))));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
            // A client that refuses the certificate ends the connection.
            let mut request = [0; 1024];
            if stream.read(&mut request).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(&[b"HTTP/1.1 200 OK\r\n\r\n", ANSWER].concat());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        (url, file)
    }
}

/// Whom a node trusts.
#[derive(Clone, Copy)]
pub(crate) enum Trust {
    /// The server's authority.
    Its,
    /// An authority of the same name with another key.
    Another,
}

/// Returns the path of a file that no other test uses.
fn file() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("taut-dial-{}-{number}.pem", std::process::id()))
}
