//! The verifier of a server's certificate.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, RootCertStore, SignatureScheme,
};

use crate::broken::Broken;

/// Limit on the certificates that a server sends beside its own, 6: as many as a chain may have; servers send four or fewer. The verifier tries every order of those that could have
/// signed each other, so with a few more a server that no authority vouches for keeps a node busy for seconds.
const MOST_INTERMEDIATES: usize = 6;

/// Verifies a server's certificate, if there are authorities to verify it by.
pub(super) struct Verifier {
    /// The authorities, one of which must have signed the certificate, directly or through others. With `None` every certificate is accepted: below a sealed channel, TLS
    /// serves to pass proxies and firewalls, not to establish trust. That channel is `Noise_IK` to the pinned key (protocol.md 8), and the TLS endpoint sees only encrypted messages.
    /// Therefore a node connects without authorities, without a correct clock, and to a server whose certificate has expired (fault N10).
    pub(super) authorities: Option<RootCertStore>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    /// Makes the checks of rustls' own `WebPkiServerVerifier`, by the same functions. That one can also look certificates up in lists of revoked ones; a node has no such
    /// list, and the code that holds and describes them would be 7 kB of it.
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            if intermediates.len() > MOST_INTERMEDIATES {
                return Err(CertificateError::Other(OtherError(Arc::new(too_many(intermediates.len())))).into());
            }
            let parsed = ParsedCertificate::try_from(certificate)?;
            verify_server_cert_signed_by_trust_anchor(&parsed, authorities, intermediates, now, self.algorithms.all)?;
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    /// Refuses it: no cipher of TLS 1.2 is offered.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.authorities {
            Some(_) => verify_tls13_signature(message, certificate, signed, &self.algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn too_many(number: usize) -> Broken {
    Broken(format!(
        "the server sent {number} certificates of authorities beside its own certificate, and a node checks up to {MOST_INTERMEDIATES}: \
         have it send those between its own certificate and the root alone"
    ))
}
