//! A host whose clock is years off asks an https server, whose certificate is not valid by that clock.

#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use taut_base::encode_base64;
use taut_dial::{Broken, fetch};

/// The first and last year of a certificate.
type Years = (i32, i32);

/// Years around every test: those of the authority.
const ALWAYS: Years = (1990, 2200);

/// Starts a server whose certificate is valid in these years; returns its URL, and the file of its authority.
fn serve(years: Years, name: &str) -> (String, PathBuf) {
    let params = |names: &[&str], (first, last): Years| {
        let mut params =
            CertificateParams::new(names.iter().map(|name| String::from(*name)).collect::<Vec<_>>()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(first, 1, 1), date_time_ymd(last, 1, 1));
        params
    };
    let mut authority = params(&[], ALWAYS);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["localhost"], years).signed_by(&key, &issuer).unwrap();
    let file = std::env::temp_dir().join(format!("taut-dial-{}-{name}.pem", std::process::id()));
    let text = encode_base64(authority_certificate.der());
    std::fs::write(&file, format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![certificate.der().clone()], private).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        // A client that refuses the certificate ends the connection.
        let mut request = [0; 1024];
        if stream.read(&mut request).is_ok_and(|length| length > 0) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"schema\":1}");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (url, file)
}

fn ask(years: Years, name: &str) -> Result<Vec<u8>, Broken> {
    let (url, file) = serve(years, name);
    let answer = fetch(&url.parse().unwrap(), "/key", &[Path::new(&file)]);
    std::fs::remove_file(file).unwrap();
    answer
}

#[test]
fn a_certificate_that_is_valid_now_is_accepted() {
    assert_eq!(ask(ALWAYS, "now").unwrap(), b"{\"schema\":1}");
}

#[test]
fn fault_m5_a_clock_that_is_years_off_is_told_with_both_times() {
    // A clock five years ahead sees a certificate that has ended, one behind a certificate that has not begun.
    let ended = ask((2000, 2001), "ended").unwrap_err().0;
    assert!(
        ended.starts_with("its certificate ended at 2001-01-01T00:00:00Z, and this host's clock says 20"),
        "{ended}"
    );
    let early = ask((2190, 2191), "early").unwrap_err().0;
    assert!(
        early.starts_with("its certificate begins at 2190-01-01T00:00:00Z, and this host's clock says 20"),
        "{early}"
    );
}
