//! Verifiers of a server's certificate: one that needs an authority of the host to vouch for it, and one that accepts every certificate.

use std::fmt;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, PeerIncompatible, RootCertStore, SignatureScheme};

/// Accepts a certificate that one of the authorities vouches for, for the name that was asked for, now.
///
/// These are the checks of rustls' own `WebPkiServerVerifier`, by the same functions. That one can also look certificates up in lists of revoked ones; a node
/// has no such list, and the code that holds and describes them would be 7 kB of it.
pub(super) struct CertifiedBy {
    pub(super) authorities: RootCertStore,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for CertifiedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertifiedBy")
    }
}

impl ServerCertVerifier for CertifiedBy {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.authorities, intermediates, now, self.algorithms.all)?;
        verify_server_name(&parsed, name)?;
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
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts every certificate. TLS serves to pass proxies and firewalls, not to establish trust: the channel inside is `Noise_IK` to the pinned key (protocol.md 8), and
/// the TLS endpoint sees only encrypted messages. Therefore a node connects without certificate authorities, without a correct clock, and to a server whose
/// certificate has expired (fault N10).
pub(super) struct AnyCertificate(pub(super) WebPkiSupportedAlgorithms);

impl fmt::Debug for AnyCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyCertificate")
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
