//! The channel behind an https front: every certificate is accepted, because trust comes from the pinned key (protocol.md 8).

use std::sync::Arc;
use std::thread;

use crate::coordinator::{Coordinator, map};
use crate::node::{Node, StateDir};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use taut_base::decode_base64;
use taut_netmap::{ToCoordinator, ToNode};

/// A self-signed certificate (P-256) for `expired.invalid`, valid on 2020-01-01 only, with a broken signature.
const CERTIFICATE: &str = "\
    MIIBiTCCAS+gAwIBAgIUMt/KhluwCFUm/aaUIell3paQvnQwCgYIKoZIzj0EAwIwGjEYMBYGA1UEAwwPZXhwaXJlZC5pbnZhbGlkMB4XDTIwMD\
    EwMTAwMDAwMFoXDTIwMDEwMjAwMDAwMFowGjEYMBYGA1UEAwwPZXhwaXJlZC5pbnZhbGlkMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaKft\
    yZk6jj1WrH5if7YbiFsPTtM7TVzw3vNGmTREA4Sjz3ZS0JlakzptSJ52EiWjVhJY5AMlfVrPnNl2AMZ1WqNTMFEwHQYDVR0OBBYEFPV6bddrXb\
    9rB47mXD2l9Y2KGZWHMB8GA1UdIwQYMBaAFPV6bddrXb9rB47mXD2l9Y2KGZWHMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIg\
    aUAUuvhEXxIlLB3rdYitvio570buN7XKHAWOWbJKzccCIQDaTT9VJtAo7HOh3D2Cjp3KEMHKpIh787nqmJ7BL7Eq/Q==";

/// The private key of [`CERTIFICATE`], PKCS #8, made for this test.
const PRIVATE_KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgajmr2QkB6gzM3q+l383goLvVY0k3QnbcEAHZmhpEQQ6hRANCAARop+3JmTqOPV\
    asfmJ/thuIWw9O0ztNXPDe80aZNEQDhKPPdlLQmVqTOm1InnYSJaNWEljkAyV9Ws+c2XYAxnVa";

fn server_config() -> Arc<ServerConfig> {
    let certificate = CertificateDer::from(decode_base64(CERTIFICATE).unwrap());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(decode_base64(PRIVATE_KEY).unwrap()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

#[test]
fn fault_n10_an_expired_foreign_certificate_is_accepted() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    let url = coordinator.url().replace("http://", "https://");
    node.join(coordinator.token_with(vec![url.clone()]));
    let connection = ServerConnection::new(server_config()).unwrap();
    let mut session = coordinator.shake_hands(Box::new(StreamOwned::new(connection, coordinator.accept_socket())));
    let key = session.receive_hello().node_key;
    session.send(&ToNode::Map(map(1, key, 250)));
    assert_eq!(node.connected(), url);
    assert_eq!(node.map().peers.len(), 250);
    node.stop();
    assert!(matches!(session.receive(), Some(ToCoordinator::Goodbye)));
}

#[test]
fn fault_e17_many_messages_over_tls_take_many_turns_and_none_is_lost() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    let url = coordinator.url().replace("http://", "https://");
    node.join(coordinator.token_with(vec![url]));
    let connection = ServerConnection::new(server_config()).unwrap();
    let mut session = coordinator.shake_hands(Box::new(StreamOwned::new(connection, coordinator.accept_socket())));
    let key = session.receive_hello().node_key;
    // All messages together take about ten turns.
    let sender = thread::spawn(move || {
        (1..=20).for_each(|version| session.send(&ToNode::Map(map(version, key, 250))));
        session
    });
    assert_eq!((0..20).map(|_| node.map().version).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    drop(sender.join().unwrap());
    node.disconnected();
    node.stop();
}
