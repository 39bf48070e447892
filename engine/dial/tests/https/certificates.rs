//! Certificates and servers with keys of every kind, made and served by *ring*, which shares no code with the node's checks.

use rcgen::{
    CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyPair, NameConstraints,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PKCS_RSA_SHA384, PKCS_RSA_SHA512,
    SignatureAlgorithm,
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
        let is_told = ["no authority that this host trusts", "is wrong, or made", "signed in a way"]
            .iter()
            .any(|why| refused.contains(why));
        assert!(is_told, "{authority:?}: {refused}");
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

/// Asks a server whose certificate, and that of the authority in between, are changed.
fn changed(own: fn(&mut CertificateParams), between: fn(&mut CertificateParams)) -> Result<Vec<u8>, taut_dial::Broken> {
    let intermediate = Some(KeyPair::generate().unwrap());
    Server { intermediate, changes: [own, between], ..Server::default() }.ask(Trust::Its)
}

#[test]
fn what_a_certificate_is_not_for_is_refused() {
    assert_eq!(changed(|_| {}, |_| {}).unwrap(), ANSWER);
    let for_servers: fn(&mut CertificateParams) =
        |own| own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let for_clients: fn(&mut CertificateParams) =
        |own| own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let unknown: fn(&mut CertificateParams) = |own| {
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4, 5], vec![5, 0]);
        extension.set_criticality(true);
        own.custom_extensions.push(extension);
    };
    let constrained: fn(&mut CertificateParams) = |between| {
        let permitted_subtrees = vec![GeneralSubtree::DnsName(String::from("example.com"))];
        between.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: vec![] });
    };
    assert_eq!(changed(for_servers, for_servers).unwrap(), ANSWER);
    for (own, between, why) in [
        (for_clients, for_servers, "extended key usage"),
        (for_servers, for_clients, "extended key usage"),
        (unknown, |_| {}, "UnsupportedCriticalExtension"),
        (|_| {}, unknown, "UnsupportedCriticalExtension"),
        (|_| {}, constrained, "NameConstraintViolation"),
        (|_| {}, |between| between.is_ca = IsCa::ExplicitNoCa, "EndEntityUsedAsCa"),
        (|_| {}, |between| between.is_ca = IsCa::NoCa, "EndEntityUsedAsCa"),
    ] as [(fn(&mut CertificateParams), fn(&mut CertificateParams), &str); 7]
    {
        let refused = changed(own, between).unwrap_err().0;
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

#[test]
fn a_crowd_of_authorities_that_could_have_signed_each_other_is_not_tried() {
    for (crowd, why) in
        [(6, "no authority that this host trusts"), (7, "sent 7 certificates of authorities"), (100, "sent 100")]
    {
        let refused = Server { crowd, ..Server::default() }.ask(Trust::Its).unwrap_err().0;
        assert!(refused.contains(why), "{refused}");
    }
}
