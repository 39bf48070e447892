//! The control channel's handshake against the crate `snow`, in both roles.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use taut_base::PrivateKey;
use taut_noise::{TransportError, ik, public_key};

const PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"taut control 1";

fn keys() -> (PrivateKey, PrivateKey, PrivateKey) {
    (PrivateKey::from_bytes([3; 32]), PrivateKey::from_bytes([5; 32]), PrivateKey::from_bytes([7; 32]))
}

fn snow(private: &PrivateKey) -> snow::Builder<'_> {
    snow::Builder::new(PROTOCOL.parse().unwrap())
        .prologue(PROLOGUE)
        .unwrap()
        .local_private_key(private.expose())
        .unwrap()
}

/// Returns the Noise message in a one-record message: the bytes after its length.
fn record(sealed: &[u8]) -> &[u8] {
    &sealed[2..]
}

#[test]
fn taut_initiates_and_snow_responds() {
    let (node, coordinator, ephemeral) = keys();
    let (waiting, first) = ik::Initiator::start(PROLOGUE, &node, &public_key(&coordinator), ephemeral).unwrap();
    let mut other = snow(&coordinator).build_responder().unwrap();
    let mut buffer = [0; 1024];
    assert_eq!(other.read_message(&first, &mut buffer).unwrap(), 0);
    assert_eq!(other.get_remote_static().unwrap(), public_key(&node).as_bytes());
    let length = other.write_message(&[], &mut buffer).unwrap();
    let mut ours = waiting.finish(&buffer[..length]).unwrap();
    let mut other = other.into_transport_mode().unwrap();

    let sealed = ours.seal(b"hello");
    let length = other.read_message(record(&sealed), &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"\0hello");
    let length = other.write_message(b"\0welcome", &mut buffer).unwrap();
    let framed = [&u16::try_from(length).unwrap().to_be_bytes(), &buffer[..length]].concat();
    assert_eq!(ours.open(framed).unwrap(), b"welcome");
}

#[test]
fn snow_initiates_and_taut_responds() {
    let (node, coordinator, ephemeral) = keys();
    let coordinator_public = public_key(&coordinator);
    let mut other = snow(&node).remote_public_key(coordinator_public.as_bytes()).unwrap().build_initiator().unwrap();
    let mut buffer = [0; 1024];
    let length = other.write_message(&[], &mut buffer).unwrap();
    let replying = ik::Responder::read(PROLOGUE, &coordinator, &buffer[..length]).unwrap();
    assert_eq!(replying.initiator(), public_key(&node));
    let (mut ours, second) = replying.reply(&ephemeral).unwrap();
    other.read_message(&second, &mut buffer).unwrap();
    let mut other = other.into_transport_mode().unwrap();

    let sealed = ours.seal(b"map");
    let length = other.read_message(record(&sealed), &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"\0map");
}

#[test]
fn unknown_keys_and_other_networks_are_refused() {
    let (node, coordinator, ephemeral) = keys();
    let (_, first) = ik::Initiator::start(PROLOGUE, &node, &public_key(&coordinator), ephemeral.clone()).unwrap();
    assert!(ik::Responder::read(b"another network", &coordinator, &first).is_err());
    assert!(ik::Responder::read(PROLOGUE, &node, &first).is_err());
    assert!(ik::Responder::read(PROLOGUE, &coordinator, &first[1..]).is_err());
    for place in 0..first.len() {
        let mut altered = first;
        altered[place] ^= 1;
        assert!(ik::Responder::read(PROLOGUE, &coordinator, &altered).is_err(), "byte {place}");
    }
}

#[test]
fn large_messages_pass_and_tampering_is_noticed() {
    let (node, coordinator, ephemeral) = keys();
    let (waiting, first) = ik::Initiator::start(PROLOGUE, &node, &public_key(&coordinator), ephemeral.clone()).unwrap();
    let (mut there, second) = ik::Responder::read(PROLOGUE, &coordinator, &first).unwrap().reply(&ephemeral).unwrap();
    let mut here = waiting.finish(&second).unwrap();
    for size in [0, 1, 65_518, 65_519, 1_000_000] {
        let message: Vec<u8> = (0..size).map(|number: u32| number.to_le_bytes()[0]).collect();
        let sealed = here.seal(&message);
        assert_eq!(there.open(sealed).unwrap(), message, "{size} bytes");
    }
    let mut sealed = here.seal(&[1; 70_000]);
    sealed.truncate(65_537);
    assert_eq!(there.open(sealed), Err(TransportError::Cut));
    let again = here.seal(b"after a loss");
    assert_eq!(there.open(again.clone()), Err(TransportError::Altered));
}
