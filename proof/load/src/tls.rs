//! TLS and transport settings of both ends.

use std::path::Path;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::arguments::{Congestion, End};
use crate::failure::Failure;

/// The name in the certificate. The caller chooses the address.
pub(crate) const NAME: &str = "localhost";
/// The application protocol, which both ends must agree on (RFC 9001, section 8.1).
const PROTOCOL: &[u8] = b"taut-load";
/// Maximum number of bytes in flight, 16 MiB: twice the bandwidth-delay product of 100 Mbit/s over 600 ms, a satellite. quinn's default of 1.25 MB would
/// limit the throughput of such a path.
const WINDOW: u32 = 16 << 20;

/// Creates a certificate, writes it to the file for clients, and returns the server's settings.
pub(crate) fn server(end: &End) -> Result<quinn::ServerConfig, Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(Failure::of("making a certificate"))?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    publish(&end.certificate, &certificate)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Failure::of("choosing TLS 1.3"))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(Failure::of("taking the certificate"))?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicServerConfig::try_from(tls).map_err(Failure::of("setting up TLS for QUIC"))?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(end.congestion));
    Ok(config)
}

/// Returns the settings of a client that trusts only the certificate in the file.
pub(crate) fn client(end: &End) -> Result<quinn::ClientConfig, Failure> {
    let certificate = std::fs::read(&end.certificate).map_err(Failure::of("reading the certificate"))?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate)).map_err(Failure::of("trusting the certificate"))?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Failure::of("choosing TLS 1.3"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Every handshake is a full one.
    tls.resumption = Resumption::disabled();
    let crypto = QuicClientConfig::try_from(tls).map_err(Failure::of("setting up TLS for QUIC"))?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(end.congestion));
    Ok(config)
}

/// Returns the cryptography provider. It is explicit because a program that links two providers has no default one.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns quinn's default settings (with segmentation offload and path MTU discovery), except for windows and congestion control.
fn transport(congestion: Congestion) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(congestion.factory());
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(WINDOW.into());
    Arc::new(transport)
}

/// Writes the file atomically, because a client may be waiting for it.
fn publish(path: &Path, certificate: &[u8]) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, certificate).map_err(Failure::of("writing the certificate"))?;
    std::fs::rename(&beside, path).map_err(Failure::of("renaming the certificate"))
}
