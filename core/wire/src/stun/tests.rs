use super::*;
use crate::wireguard;
use proptest::prelude::*;

const TRANSACTION: Transaction = [0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae];

fn v4() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 32853))
}

fn v6() -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0x1234, 0x5678, 0x11, 0x2233, 0x4455, 0x6677], 32853))
}

fn request(change_port: bool) -> [u8; REQUEST_LEN] {
    let mut bytes = [0xee; REQUEST_LEN];
    BindingRequest { transaction: TRANSACTION, change_port }.write(&mut bytes);
    bytes
}

fn written(answer: &BindingResponse) -> Vec<u8> {
    let mut bytes = [0xee; MAX_ANSWER_LEN];
    let length = answer.write(&mut bytes);
    assert_eq!(length, answer.len());
    bytes[..length].to_vec()
}

fn all_answers() -> Vec<BindingResponse> {
    let addresses = [v4(), v6()];
    let mut answers = Vec::new();
    for mapped in addresses {
        answers.push(BindingResponse { transaction: TRANSACTION, mapped, other: None });
        answers.extend(addresses.map(|other| BindingResponse { transaction: TRANSACTION, mapped, other: Some(other) }));
    }
    answers
}

/// The addresses and the mask of RFC 5769 section 2.2, without its password-based attributes.
#[test]
fn addresses_are_masked_as_in_rfc_5769() {
    let mut value = [0; 20];
    write_address(&mut value, 0, v4(), Some(&TRANSACTION));
    assert_eq!(value[..8], [0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43]);
    let mut value = [0; 20];
    write_address(&mut value, 0, v6(), Some(&TRANSACTION));
    let expected = [
        0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25, 0xf4, 0xb5, 0xbe, 0xd2,
        0xb9, 0xd9,
    ];
    assert_eq!(value, expected);
    assert_eq!(read_address(&value, Some(&TRANSACTION)), Some(v6()));
}

/// The published check value of CRC-32 with the mask of RFC 8489.
#[test]
fn the_fingerprint_is_crc_32() {
    assert_eq!(attributes::fingerprint(b"123456789"), 0xcbf4_3926 ^ 0x5354_554e);
}

#[test]
fn what_is_written_is_read() {
    for change_port in [false, true] {
        let bytes = request(change_port);
        assert!(is_stun(&bytes));
        assert_eq!(BindingRequest::parse(&bytes), Ok(BindingRequest { transaction: TRANSACTION, change_port }));
        assert_eq!(BindingResponse::parse(&bytes), Err(BadStun::NotStun));
    }
    for answer in all_answers() {
        let bytes = written(&answer);
        assert!(is_stun(&bytes) && bytes.len() <= REQUEST_LEN);
        assert_eq!(BindingResponse::parse(&bytes), Ok(answer));
        assert_eq!(BindingRequest::parse(&bytes), Err(BadStun::NotStun));
    }
}

#[test]
fn a_server_answers_no_more_than_it_was_sent() {
    let bare = [&[0, 1, 0, 0], &COOKIE[..], &TRANSACTION].concat();
    assert_eq!(
        BindingRequest::parse(&bare),
        Ok(BindingRequest { transaction: TRANSACTION, change_port: false }),
        "a stock request"
    );
    assert_eq!(answer(&bare, v4(), None), Err(BadStun::ShorterThanItsAnswer));
    let (reply, other_port) = answer(&request(true), v6(), Some(v6())).unwrap();
    assert!(other_port && written(&reply).len() <= REQUEST_LEN);
    assert_eq!(reply.mapped, v6());
}

#[test]
fn an_answer_of_another_server_is_read() {
    // SOFTWARE with padding, MAPPED-ADDRESS beside the masked address, no fingerprint.
    let mut bytes = [&[1, 1, 0, 36], &COOKIE[..], &TRANSACTION].concat();
    bytes.extend([0x80, 0x22, 0, 3, b'a', b'b', b'c', 0x20]);
    bytes.extend([0, 1, 0, 8, 0, 1, 0x80, 0x55, 192, 0, 2, 1]);
    bytes.extend([0, 0x20, 0, 8, 0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43]);
    bytes.extend([0x80, 0x2b, 0, 0]);
    assert_eq!(
        BindingResponse::parse(&bytes),
        Ok(BindingResponse { transaction: TRANSACTION, mapped: v4(), other: None })
    );
}

#[test]
fn unknown_required_attributes_are_refused() {
    let message = |attribute: &[u8]| {
        let length = u16::try_from(attribute.len()).unwrap().to_be_bytes();
        [&[0, 1], &length[..], &COOKIE, &TRANSACTION, attribute].concat()
    };
    assert_eq!(BindingRequest::parse(&message(&[0, 6, 0, 1, b'u', 0, 0, 0])), Err(BadStun::Unsupported), "USERNAME");
    assert_eq!(
        BindingRequest::parse(&message(&[0, 3, 0, 4, 0, 0, 0, 6])),
        Err(BadStun::Unsupported),
        "another address"
    );
    assert_eq!(BindingRequest::parse(&message(&[0, 3, 0, 0])), Err(BadStun::Unsupported), "nothing to change");
    assert!(BindingRequest::parse(&message(&[0, 0x26, 0, 4, 0, 0, 0, 0])).is_ok(), "PADDING");
    assert!(BindingRequest::parse(&message(&[0xff, 0xff, 0, 4, 0, 0, 0, 0])).is_ok(), "what may be passed over");
}

#[test]
fn fault_a14_truncated_overlong_and_altered_messages_are_refused() {
    let answers: Vec<_> = all_answers().iter().map(written).collect();
    for bytes in answers.into_iter().chain([request(false).to_vec(), request(true).to_vec()]) {
        let read = |bytes: &[u8]| (BindingRequest::parse(bytes).ok(), BindingResponse::parse(bytes).ok());
        let readable = |bytes: &[u8]| read(bytes) != (None, None);
        assert!(readable(&bytes));
        for cut in 0..bytes.len() {
            assert!(!readable(&bytes[..cut]), "cut to {cut}");
        }
        for more in [1, 4, 64] {
            assert!(!readable(&[bytes.as_slice(), &vec![0; more]].concat()), "{more} bytes more");
        }
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            // A flipped bit in the fingerprint's type or in the length before it hides the fingerprint. Nothing else is altered then.
            assert!(!readable(&altered) || read(&altered) == read(&bytes), "bit {bit} flipped");
        }
    }
}

#[test]
fn fault_a14_attributes_that_reach_beyond_the_end_are_refused() {
    let mut bytes = [&[1, 1, 0, 12], &COOKIE[..], &TRANSACTION].concat();
    bytes.extend([0, 0x20, 0, 9, 0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43]);
    assert_eq!(BindingResponse::parse(&bytes), Err(BadStun::Attribute));
    bytes[23] = 8;
    assert!(BindingResponse::parse(&bytes).is_ok());
    bytes[23] = 4;
    assert_eq!(BindingResponse::parse(&bytes), Err(BadStun::Attribute), "half an address, and no attribute behind it");
    let empty = [&[1, 1, 0, 0], &COOKIE[..], &TRANSACTION].concat();
    assert_eq!(BindingResponse::parse(&empty), Err(BadStun::Attribute), "no address");
}

#[test]
fn no_wireguard_message_is_stun() {
    for kind in 1..=4 {
        for length in 0..200 {
            let mut bytes = vec![0; length];
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some(index) = bytes.get_mut(4..8) {
                index.copy_from_slice(&COOKIE);
            }
            assert!(!(is_stun(&bytes) && wireguard::classify(&bytes).is_ok()));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), framed: bool) {
        if framed && bytes.len() >= 20 {
            let kind = [bytes[0] & 1, 1];
            put(&mut bytes, 0, kind);
            let length = low16(bytes.len() - 20);
            put16(&mut bytes, 2, length);
            put(&mut bytes, 4, COOKIE);
        }
        if let Ok(read) = BindingResponse::parse(&bytes) {
            prop_assert_eq!(BindingResponse::parse(&written(&read)), Ok(read));
        }
        if let Ok((answer, _)) = answer(&bytes, v6(), Some(v6())) {
            prop_assert!(answer.len() <= bytes.len());
        }
    }
}
