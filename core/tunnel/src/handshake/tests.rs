use std::time::Duration;

use taut_base::{LaneId, PresharedKey, PrivateKey, PublicKey, ReceiverIndex};
use taut_wire::wireguard::{Message, classify};

use super::*;
use crate::session::SessionKeys;

struct End {
    identity: Identity,
    remote: Remote,
}

fn ends(preshared: [u8; 32]) -> (End, End) {
    let here = Identity::new(PrivateKey::from_bytes([1; 32]));
    let there = Identity::new(PrivateKey::from_bytes([2; 32]));
    let to_there = Remote::new(&here, there.public(), PresharedKey::from_bytes(preshared)).unwrap();
    let to_here = Remote::new(&there, here.public(), PresharedKey::from_bytes(preshared)).unwrap();
    (End { identity: here, remote: to_there }, End { identity: there, remote: to_here })
}

fn start(end: &End) -> (SentInitiation, [u8; 148]) {
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(1_700_000_000));
    SentInitiation::start(&end.identity, &end.remote, ReceiverIndex(16), stamp, PrivateKey::from_bytes([3; 32]))
        .unwrap()
}

fn answer(end: &End, message: &[u8]) -> Result<(SessionKeys, [u8; 92]), HandshakeError> {
    let Ok(Message::Initiation(message)) = classify(message) else { panic!("no initiation") };
    let received = ReceivedInitiation::read(&end.identity, &message)?;
    assert_eq!(received.initiator(), end.remote.public());
    let authentic = received.authenticate(&end.remote)?;
    assert_eq!(authentic.timestamp(), Timestamp::from_wall_clock(Duration::from_secs(1_700_000_000)));
    authentic.respond(&end.remote, ReceiverIndex(32), &PrivateKey::from_bytes([4; 32]))
}

fn finish(end: &End, sent: &SentInitiation, message: &[u8]) -> Result<SessionKeys, HandshakeError> {
    let Ok(Message::Response(message)) = classify(message) else { panic!("no response") };
    sent.finish(&end.identity, &end.remote, &message)
}

#[test]
fn both_ends_get_the_same_keys() {
    let (here, there) = ends([9; 32]);
    let (sent, initiation) = start(&here);
    let (theirs, response) = answer(&there, &initiation).unwrap();
    let ours = finish(&here, &sent, &response).unwrap();
    let (extension, same) = (ours.extension.unwrap(), theirs.extension.unwrap());
    let (ours, theirs) = (ours.stock, theirs.stock);
    assert_eq!(ours.sending, theirs.receiving);
    assert_eq!(ours.receiving, theirs.sending);
    assert_ne!(ours.sending, ours.receiving);
    assert_eq!((ours.local, ours.remote), (theirs.remote, theirs.local));
    assert_eq!(extension.control(LaneId::FIRST).sending, same.control(LaneId::FIRST).receiving);
    assert_ne!(extension.control(LaneId::FIRST).sending, ours.sending);
}

#[test]
fn another_preshared_key_gives_no_session() {
    let (here, _) = ends([9; 32]);
    let (_, there) = ends([8; 32]);
    let (sent, initiation) = start(&here);
    let (_, response) = answer(&there, &initiation).unwrap();
    assert_eq!(finish(&here, &sent, &response).err(), Some(HandshakeError::NotAuthentic));
}

#[test]
fn fault_a9_a_forged_response_does_not_end_the_attempt() {
    let (here, there) = ends([0; 32]);
    let (sent, initiation) = start(&here);
    let (_, response) = answer(&there, &initiation).unwrap();
    let mut forged = response;
    forged[20] ^= 1;
    assert!(finish(&here, &sent, &forged).is_err());
    assert!(finish(&here, &sent, &response).is_ok());
}

#[test]
fn fault_a16_every_changed_bit_is_noticed() {
    let (here, there) = ends([0; 32]);
    let (sent, initiation) = start(&here);
    let checker = there.identity.checker([5; 32]);
    assert!(checker.is_for_us(&initiation));
    for bit in 0..116 * 8 {
        let mut altered = initiation;
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(!checker.is_for_us(&altered), "bit {bit}");
    }
    for bit in 8 * 8..116 * 8 {
        let mut altered = initiation;
        altered[bit / 8] ^= 1 << (bit % 8);
        // X25519 ignores the top bit of a point (RFC 7748, section 5), but the transcript does not.
        assert!(answer(&there, &altered).is_err(), "bit {bit}");
    }
    let (_, response) = answer(&there, &initiation).unwrap();
    for bit in 12 * 8..60 * 8 {
        let mut altered = response;
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(finish(&here, &sent, &altered).is_err(), "bit {bit}");
        assert!(!here.identity.checker([5; 32]).is_for_us(&altered));
    }
}

#[test]
fn fault_a8_low_order_keys_give_no_session() {
    let (here, there) = ends([0; 32]);
    assert!(Remote::new(&here.identity, PublicKey([0; 32]), PresharedKey::NONE).is_err());
    let (sent, mut initiation) = start(&here);
    let (_, mut response) = answer(&there, &initiation).unwrap();
    initiation[8..40].fill(0);
    assert_eq!(answer(&there, &initiation).err(), Some(HandshakeError::LowOrder));
    response[12..44].fill(0);
    assert_eq!(finish(&here, &sent, &response).err(), Some(HandshakeError::LowOrder));
}
