//! Certificates and servers with keys of every kind, made and served by *ring*, which shares no code with the node's checks.

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PKCS_RSA_SHA384,
    PKCS_RSA_SHA512, SignatureAlgorithm,
};
use rustls::crypto::ring::kx_group::{SECP256R1, SECP384R1, X25519};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use crate::server::{ANSWER, Server, Trust};

/// Made by `openssl genpkey -algorithm RSA`; secret to nobody.
const RSA: &[u8] = include_bytes!("rsa.pem");

const ALL: [&SignatureAlgorithm; 6] = [
    &PKCS_ECDSA_P256_SHA256,
    &PKCS_ECDSA_P384_SHA384,
    &PKCS_ED25519,
    &PKCS_RSA_SHA256,
    &PKCS_RSA_SHA384,
    &PKCS_RSA_SHA512,
];

fn key(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    // No library here makes keys of RSA, but all read one.
    match [&PKCS_RSA_SHA256, &PKCS_RSA_SHA384, &PKCS_RSA_SHA512].contains(&algorithm) {
        true => {
            let key = PrivatePkcs8KeyDer::from_pem_slice(RSA).unwrap();
            KeyPair::from_pkcs8_der_and_sign_algo(&key, algorithm).unwrap()
        }
        false => KeyPair::generate_for(algorithm).unwrap(),
    }
}

#[test]
fn certificates_and_servers_with_every_kind_of_key_are_accepted() {
    for authority in ALL {
        for own in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
            let server = Server { authority: key(authority), key: key(own), ..Server::default() };
            assert_eq!(server.ask(Trust::Its).unwrap(), ANSWER, "{own:?} certified by {authority:?}");
        }
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    for authority in ALL {
        let server = Server { authority: key(authority), ..Server::default() };
        let refused = server.ask(Trust::Another).unwrap_err().0;
        assert!(refused.contains("certificate"), "{authority:?}: {refused}");
    }
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    let server = Server { name: "other.example", ..Server::default() };
    let refused = server.ask(Trust::Its).unwrap_err().0;
    assert!(refused.contains("not valid for name") && refused.contains("localhost"), "{refused}");
    assert!(refused.contains("other.example"), "{refused}");
}

#[test]
fn an_authority_vouches_through_an_intermediate_one() {
    let server = || Server { intermediate: Some(key(&PKCS_ECDSA_P384_SHA384)), ..Server::default() };
    assert_eq!(server().ask(Trust::Its).unwrap(), ANSWER);
    let refused = server().ask(Trust::Another).unwrap_err().0;
    assert!(refused.contains("certificate"), "{refused}");
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused() {
    for own in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519, &PKCS_RSA_SHA256] {
        let signs_with = Some(match own == &PKCS_RSA_SHA256 {
            true => key(&PKCS_ECDSA_P256_SHA256),
            false => KeyPair::generate_for(own).unwrap(),
        });
        let server = Server { key: key(own), signs_with, ..Server::default() };
        let refused = server.ask(Trust::Its).unwrap_err().0;
        assert!(refused.contains("certificate") || refused.contains("signature"), "{own:?}: {refused}");
    }
}

#[test]
fn a_server_with_one_curve_is_reached() {
    for group in [X25519, SECP256R1, SECP384R1] {
        let server = Server { groups: vec![group], ..Server::default() };
        assert_eq!(server.ask(Trust::Its).unwrap(), ANSWER, "{group:?}");
    }
}
