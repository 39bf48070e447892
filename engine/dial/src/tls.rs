//! TLS below a channel of an https URL, and the certificate authorities of the host.

mod provider;
mod verifier;

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, InvalidMessage, OtherError, RootCertStore, StreamOwned,
};

use taut_base::format_time;

use crate::broken::Broken;
use verifier::Verifier;

/// A stream with TLS on a socket.
pub(crate) type Secured<S> = StreamOwned<ClientConnection, S>;
/// Who may certify a server.
pub(crate) type Authorities = RootCertStore;

/// Error for the user if the https URL of a channel leads to a port without TLS. A channel pins the server's key, so plain HTTP is as safe.
const NO_TLS: &str = "the server does not speak TLS at this port: write http:// in the URL instead of https://, or give the port at which it speaks https";

/// The same where the certificate is all that vouches for the server: anybody on the way can answer so, and plain HTTP would leave nothing that vouches for it.
const NO_TLS_VERIFIED: &str = "the server does not speak TLS at this port: check the port in the URL, which has to be one at which it speaks https; or somebody in between answers";

/// Wraps a connected socket. The handshake begins with the first write. With `authorities`, the server's certificate has to be valid for `host`.
pub(crate) fn secure<S: Read + Write>(
    socket: S,
    host: &str,
    authorities: Option<Authorities>,
) -> io::Result<Secured<S>> {
    let name = ServerName::try_from(String::from(host)).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(tls_config(authorities)?), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, socket))
}

/// Returns the certificate authorities in the first of the files that exists.
pub(crate) fn authorities(files: &[&Path]) -> Result<RootCertStore, Broken> {
    let mut store = RootCertStore::empty();
    let Some(file) = files.iter().find(|file| file.exists()) else {
        return Err(Broken(String::from("this host has no file with certificate authorities")));
    };
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|error| Broken(format!("{} cannot be read: {error}", file.display())))?;
    store.add_parsable_certificates(certificates.filter_map(Result::ok));
    match store.is_empty() {
        true => Err(Broken(format!("{} has no certificate authority", file.display()))),
        false => Ok(store),
    }
}

/// Returns an error of a TLS stream, in words for the user if the server answered the handshake with something else than TLS, which the first bytes of a record tell.
/// `verified` is true if the certificate is checked.
pub(crate) fn name_plain<S: Read + Write>(stream: &Secured<S>, verified: bool, error: io::Error) -> io::Error {
    use InvalidMessage::{InvalidContentType, UnknownProtocolVersion};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(InvalidContentType | UnknownProtocolVersion))
            if stream.conn.is_handshaking() =>
        {
            io::Error::new(io::ErrorKind::InvalidData, if verified { NO_TLS_VERIFIED } else { NO_TLS })
        }
        _ => error,
    }
}

/// Returns an error as text for the user.
pub(crate) fn explain(error: &io::Error) -> Broken {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => Broken(explain_certificate(why)),
        _ => Broken(error.to_string()),
    }
}

/// Returns why a certificate is refused. One that is not valid now is told with both times, because this host's clock may be the one that is wrong.
fn explain_certificate(why: &CertificateError) -> String {
    use CertificateError as Why;
    let time = |time: &UnixTime| format_time(Duration::from_secs(time.as_secs())).replace(".000Z", "Z");
    match why {
        Why::ExpiredContext { time: now, not_after } => {
            format!("its certificate ended at {}, and this host's clock says {}", time(not_after), time(now))
        }
        Why::NotValidYetContext { time: now, not_before } => {
            format!("its certificate begins at {}, and this host's clock says {}", time(not_before), time(now))
        }
        Why::UnknownIssuer => String::from("no authority that this host trusts vouches for its certificate"),
        Why::BadSignature => String::from(
            "a signature by its certificate, or in it, is wrong, or made with an RSA key of fewer than 2,048 or more than 8,192 bits",
        ),
        Why::UnsupportedSignatureAlgorithmContext { .. }
        | Why::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => String::from(
            "its certificate, or that of an authority, is signed in a way that a node does not check: it checks ECDSA on P-256 and P-384, Ed25519, \
             and RSA, with SHA-256, SHA-384 or SHA-512",
        ),
        Why::Other(OtherError(other)) => match other.downcast_ref::<Broken>() {
            Some(Broken(own)) => own.clone(),
            None => format!("its certificate is refused: {other}"),
        },
        _ => format!("its certificate is refused: {why}"),
    }
}

fn tls_config(authorities: Option<RootCertStore>) -> io::Result<ClientConfig> {
    let provider = Arc::new(provider::provider());
    let verifier = Arc::new(Verifier { authorities, algorithms: provider.signature_verification_algorithms });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A channel lasts for days, so resumption tickets would cost memory and save nothing.
    config.resumption = Resumption::disabled();
    Ok(config)
}
