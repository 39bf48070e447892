use taut_noise::Symmetric;
use taut_wire::wireguard::{self, DATA_HEADER};

use super::*;
use crate::limits::{REJECT_AFTER_BLOCKS, REJECT_AFTER_MESSAGES, REKEY_AFTER_BLOCKS, REKEY_AFTER_MESSAGES};
use crate::pair::OpenError;

fn keys(role: Role, local: u32, remote: u32, sending: u8, receiving: u8) -> SessionKeys {
    SessionKeys::stock(
        role,
        ReceiverIndex(local),
        ReceiverIndex(remote),
        Zeroizing::new([sending; 32]),
        Zeroizing::new([receiving; 32]),
    )
}

fn pair() -> (Session, Session) {
    let here = Session::new(SessionId(1), keys(Role::Initiator, 16, 32, 1, 2), Time::ZERO);
    let there = Session::new(SessionId(1), keys(Role::Responder, 32, 16, 2, 1), Time::ZERO);
    (here, there)
}

/// Returns both ends of a session between Taut nodes that accept these suites.
fn taut_pair(ours: Suites, theirs: Suites) -> (Session, Session) {
    let state = Symmetric::new("a protocol", b"");
    let side = |role, local, remote, sending, receiving, suites| {
        let extension = Some(Exporter::of(&state, role, ReceiverIndex(local), ReceiverIndex(remote)));
        let keys = SessionKeys { extension, suites, ..keys(role, local, remote, sending, receiving) };
        Session::new(SessionId(1), keys, Time::ZERO)
    };
    (side(Role::Initiator, 16, 32, 1, 2, ours), side(Role::Responder, 32, 16, 2, 1, theirs))
}

fn sealed(session: &mut Session, packet: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xee; Session::sealed_len(packet.len(), 1420)];
    datagram[DATA_HEADER..DATA_HEADER + packet.len()].copy_from_slice(packet);
    session.seal(&mut datagram, packet.len()).unwrap();
    datagram
}

fn header(datagram: &[u8]) -> (ReceiverIndex, u64) {
    let wireguard::Message::Data(data) = wireguard::classify(datagram).unwrap() else { unreachable!() };
    (ReceiverIndex(data.receiver), data.counter)
}

fn open<'a>(session: &mut Session, datagram: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
    let (index, counter) = header(datagram);
    session.data_pair(index).unwrap().open(counter, &mut datagram[DATA_HEADER..])
}

#[test]
fn what_one_seals_the_other_opens_once() {
    let (mut here, mut there) = pair();
    let datagram = sealed(&mut here, b"twenty bytes of it..");
    assert_eq!(datagram.len(), 16 + 32 + 16);
    assert_eq!(open(&mut there, &mut datagram.clone()).unwrap(), b"twenty bytes of it..\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(open(&mut there, &mut datagram.clone()), Err(OpenError::Replayed));
    assert!(open(&mut there, &mut sealed(&mut here, b"")).unwrap().is_empty());
}

#[test]
fn fault_c4_a_forged_counter_does_not_move_the_window() {
    let (mut here, mut there) = pair();
    let good = sealed(&mut here, b"good");
    let mut forged = sealed(&mut here, b"bad");
    forged[wireguard::data::COUNTER].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    assert_eq!(open(&mut there, &mut forged), Err(OpenError::NotAuthentic));
    assert!(open(&mut there, &mut good.clone()).is_ok());
}

#[test]
fn fault_a17_a_counter_beyond_32_bits_counts_at_its_full_width() {
    let (mut here, mut there) = pair();
    let first = sealed(&mut here, b"counter 0");
    assert!(open(&mut there, &mut first.clone()).is_ok());
    for above in [1 << 32, (1 << 32) + 1, (1 << 48) + 7] {
        here.stock.skip_to(above);
        let datagram = sealed(&mut here, b"beyond");
        assert_eq!(datagram[wireguard::data::COUNTER], above.to_le_bytes());
        assert_eq!(&open(&mut there, &mut datagram.clone()).unwrap()[..6], b"beyond");
        assert_eq!(open(&mut there, &mut datagram.clone()), Err(OpenError::Replayed));
        // If only the low half of the counter were used, an earlier nonce would repeat.
        let mut cut = datagram.clone();
        cut[wireguard::data::COUNTER].copy_from_slice(&(above & 0xffff_ffff).to_le_bytes());
        let mut fresh = pair().1;
        assert_eq!(open(&mut fresh, &mut cut), Err(OpenError::NotAuthentic));
    }
    assert_eq!(open(&mut there, &mut first.clone()), Err(OpenError::Replayed), "the window moved on");
}

#[test]
fn fault_a12_the_last_counters_are_never_used() {
    let (mut here, mut there) = pair();
    here.stock.skip_to(REJECT_AFTER_MESSAGES - 1);
    let datagram = sealed(&mut here, b"last");
    assert!(open(&mut there, &mut datagram.clone()).is_ok());
    assert_eq!(here.seal(&mut [0; 32], 0), Err(Exhausted));
    assert!(here.exhausted());
    let ciphertext = &mut [0; 16];
    assert_eq!(there.stock.open(REJECT_AFTER_MESSAGES, ciphertext), Err(OpenError::CounterAtLimit));
}

#[test]
fn a_stock_session_has_no_pair_but_wireguards() {
    let (mut here, _) = pair();
    assert!(here.control_pair().is_none());
    assert_eq!(here.indices().iter().collect::<Vec<_>>(), [ReceiverIndex(16)]);
    here.use_suite(Suite::Aes256Gcm, Abilities::default());
    assert_eq!(here.suite(), Suite::ChaCha20Poly1305);
}

#[test]
fn control_messages_have_keys_counter_window_and_index_of_their_own() {
    let (mut here, mut there) = taut_pair(Suites::STOCK, Suites::STOCK);
    for _ in 0..5 {
        sealed(&mut here, b"data");
    }
    let mut message = [0; 64];
    here.control_pair().unwrap().seal(&mut message, 32).unwrap();
    let (index, counter) = header(&message);
    assert_eq!(counter, 0, "data does not count here");
    assert!(there.data_pair(index).is_none());
    let control = there.control_pair().unwrap();
    assert_eq!(control.local(), index);
    let copy = message;
    assert!(control.open(counter, &mut message[DATA_HEADER..]).is_ok());
    assert_eq!(control.open(counter, &mut { copy }[DATA_HEADER..]), Err(OpenError::Replayed));
    assert_eq!(there.stock.open(counter, &mut { copy }[DATA_HEADER..]), Err(OpenError::NotAuthentic));
}

#[test]
fn another_suite_has_its_own_keys_and_is_used_when_both_are_ready() {
    let both = Suites::STOCK.with(Suite::Aes256Gcm);
    let (mut here, mut there) = taut_pair(both, both);
    let before = sealed(&mut here, b"before");
    here.use_suite(Suite::Aes256Gcm, Abilities::default());
    assert_eq!(here.suite(), Suite::Aes256Gcm);
    let after = sealed(&mut here, b"after");
    assert_ne!(header(&before).0, header(&after).0);
    assert_eq!(header(&after).1, 0);
    // In either order, because both pairs exist from the beginning.
    assert!(open(&mut there, &mut after.clone()).unwrap().starts_with(b"after"));
    assert!(open(&mut there, &mut before.clone()).unwrap().starts_with(b"before"));
    assert_eq!(there.suite(), Suite::ChaCha20Poly1305, "what it receives does not change what it sends");

    let (mut here, _) = taut_pair(Suites::STOCK, both);
    here.use_suite(Suite::Aes256Gcm, Abilities::default());
    assert_eq!(here.suite(), Suite::ChaCha20Poly1305, "not what it was not made for");
}

#[test]
fn of_several_suites_the_one_agreed_on_stays() {
    let all = Suites::STOCK.with(Suite::Aes256Gcm).with(Suite::Aegis256X4);
    for (suite, other) in [(Suite::Aegis256X4, Suite::Aes256Gcm), (Suite::Aes256Gcm, Suite::Aegis256X4)] {
        let (mut here, mut there) = taut_pair(all, all);
        let indices = there.indices();
        assert_eq!(indices.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        here.use_suite(suite, Abilities::OURS);
        assert_eq!((here.suite(), here.sends_partial_checksums()), (suite, true));
        let first = sealed(&mut here, b"first");
        assert!(open(&mut there, &mut first.clone()).unwrap().starts_with(b"first"));
        let Some(ControlMessage::Receipt { suite: of, counter, longest }) = there.take_receipt() else {
            unreachable!()
        };
        assert_eq!((of, here.acknowledge(of, counter, longest)), (suite, Acknowledged::Arrived));
        there.use_suite(suite, Abilities::OURS);
        assert!(open(&mut there, &mut sealed(&mut here, b"second")).unwrap().starts_with(b"second"));
        assert_eq!(here.acknowledge(other, 0, 0), Acknowledged::Impossible);
        assert_eq!(there.indices(), indices, "the agent frees all of them when the session ends");
        there.use_suite(other, Abilities::OURS);
        assert_eq!(there.suite(), Suite::ChaCha20Poly1305, "its pair is gone");
    }
}

#[test]
fn an_aegis_key_is_not_limited_by_blocks() {
    let both = Suites::STOCK.with(Suite::Aegis256X4);
    let (mut here, _) = taut_pair(both, both);
    here.use_suite(Suite::Aegis256X4, Abilities::default());
    here.fast[0].as_mut().unwrap().skip_to_block(REJECT_AFTER_BLOCKS);
    assert!(!here.wants_rekey_by_use() && !here.exhausted());
    here.fast[0].as_mut().unwrap().skip_to(REKEY_AFTER_MESSAGES);
    assert!(here.wants_rekey_by_use());
}

#[test]
fn partial_checksums_need_a_derived_pair_and_a_peer_that_accepts_them() {
    let both = Suites::STOCK.with(Suite::Aes256Gcm);
    let (mut here, mut there) = taut_pair(both, both);
    assert!(!here.sends_partial_checksums());
    for (suite, abilities, may) in [
        (Suite::Aes256Gcm, Abilities::OURS, true),
        (Suite::Aes256Gcm, Abilities(0xff), true),
        (Suite::Aes256Gcm, Abilities(0xfe), false),
        (Suite::ChaCha20Poly1305, Abilities::OURS, false),
    ] {
        here.use_suite(suite, abilities);
        assert_eq!(here.sends_partial_checksums(), may, "{suite:?} {abilities:?}");
    }
    let SessionIndices { stock, control, fast } = there.indices();
    assert!(!there.data_pair(stock).unwrap().allows_partial_checksums());
    assert!(there.data_pair(fast[1].unwrap()).unwrap().allows_partial_checksums());
    assert!(there.data_pair(control.unwrap()).is_none() && !there.control_pair().unwrap().allows_partial_checksums());
    let (mut stock, _) = pair();
    stock.use_suite(Suite::Aes256Gcm, Abilities::OURS);
    assert!(!stock.sends_partial_checksums(), "law 1");
}

#[test]
fn fault_m8_a_key_is_renewed_after_exactly_2_to_the_60_messages_and_ends_at_its_limit() {
    for (sent, renewed, ended) in [
        (REKEY_AFTER_MESSAGES - 1, false, false),
        (REKEY_AFTER_MESSAGES, true, false),
        (REJECT_AFTER_MESSAGES - 1, true, false),
        (REJECT_AFTER_MESSAGES, true, true),
    ] {
        let (mut here, _) = pair();
        here.stock.skip_to(sent);
        let (mut ring, limits) = (crate::Keyring::new(None), crate::Limits::WIREGUARD);
        ring.add(here);
        assert_eq!(ring.needs_handshake_to_send(&limits, Time::ZERO), renewed, "{sent}");
        assert_eq!(ring.sending(&limits, Time::ZERO).is_err(), ended, "{sent}");
    }
}

#[test]
fn an_aes_key_is_limited_by_blocks() {
    let both = Suites::STOCK.with(Suite::Aes256Gcm);
    let (mut here, _) = taut_pair(both, both);
    here.use_suite(Suite::Aes256Gcm, Abilities::default());
    let fast = |session: &mut Session, blocks| session.fast[1].as_mut().unwrap().skip_to_block(blocks);
    fast(&mut here, REKEY_AFTER_BLOCKS - 3);
    assert!(!here.wants_rekey_by_use());
    // Two blocks, and one for the tag.
    sealed(&mut here, b"twenty bytes of it..");
    assert!(here.wants_rekey_by_use());
    fast(&mut here, REJECT_AFTER_BLOCKS - 3);
    sealed(&mut here, b"twenty bytes of it..");
    assert!(here.exhausted());
    assert_eq!(here.seal(&mut [0; 32], 0), Err(Exhausted));

    let (mut here, _) = pair();
    here.stock.skip_to_block(REJECT_AFTER_BLOCKS);
    assert!(!here.wants_rekey_by_use() && !here.exhausted(), "the stock suite has no such limit");
    here.stock.skip_to(REKEY_AFTER_MESSAGES);
    assert!(here.wants_rekey_by_use());
}

#[test]
fn receipts_tell_the_highest_counter_once() {
    let (mut here, mut there) = taut_pair(Suites::STOCK, Suites::STOCK);
    assert_eq!(there.take_receipt(), None);
    for packet in [b"one", b"two"] {
        open(&mut there, &mut sealed(&mut here, packet)).unwrap();
    }
    let suite = Suite::ChaCha20Poly1305;
    assert_eq!(there.take_receipt(), Some(ControlMessage::Receipt { suite, counter: 1, longest: 16 }));
    assert_eq!(there.take_receipt(), None);
    assert_eq!(here.acknowledge(suite, 1, 0), Acknowledged::Arrived);
    assert_eq!(here.acknowledge(suite, 0, 0), Acknowledged::Arrived, "an overtaken one is no lie");
    assert_eq!(here.acknowledged(), Some((suite, 1)));
    assert_eq!(here.acknowledge(suite, 2, 0), Acknowledged::Impossible, "nothing was sealed with that counter");
    assert_eq!(here.acknowledge(Suite::Aes256Gcm, 0, 0), Acknowledged::Impossible, "nor with that suite");
    assert_eq!(here.acknowledged(), Some((suite, 1)));
}

#[test]
fn the_longest_message_is_told_for_each_pair() {
    let both = Suites::STOCK.with(Suite::Aes256Gcm);
    let (mut here, mut there) = taut_pair(both, both);
    let (short, long) = ([1; 1_000], [2; 1_001]);
    let receipt = |there: &mut Session| match there.take_receipt() {
        Some(ControlMessage::Receipt { suite, counter, longest }) => (suite, counter, longest),
        other => panic!("no receipt: {other:?}"),
    };
    for packet in [&short[..], &long, &[3; 1_420], &short] {
        open(&mut there, &mut sealed(&mut here, packet)).unwrap();
    }
    let (suite, counter, arrived) = receipt(&mut there);
    assert_eq!((suite, counter, arrived), (Suite::ChaCha20Poly1305, 3, 1_420));
    assert_eq!(here.acknowledge(suite, counter, arrived), Acknowledged::Arrived);

    // Another pair starts again, and receipts for the former one stay valid.
    here.use_suite(Suite::Aes256Gcm, Abilities::OURS);
    for packet in [&short[..], &[4; 1_200], &short] {
        open(&mut there, &mut sealed(&mut here, packet)).unwrap();
    }
    assert_eq!(here.acknowledge(suite, counter, arrived), Acknowledged::Arrived);
    let (suite, counter, arrived) = receipt(&mut there);
    assert_eq!((suite, counter, arrived), (Suite::Aes256Gcm, 2, 1_200));
    assert_eq!(here.acknowledge(suite, counter, arrived), Acknowledged::Arrived);

    // Three that do not arrive, and one short message that does.
    (0..3).for_each(|_| drop(sealed(&mut here, &[5; 1_300])));
    open(&mut there, &mut sealed(&mut here, &short)).unwrap();
    let (suite, counter, arrived) = receipt(&mut there);
    assert_eq!(here.acknowledge(suite, counter, arrived), Acknowledged::LongLost);
}
