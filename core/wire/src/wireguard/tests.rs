use super::*;
use proptest::prelude::*;

#[test]
fn lengths_are_strict() {
    for (kind, lengths) in [(1_u32, 148..149), (2, 92..93), (3, 64..65), (4, 32..1_700)] {
        for len in 4..1_700 {
            let mut datagram = vec![0; len];
            datagram[..4].copy_from_slice(&kind.to_le_bytes());
            match classify(&datagram) {
                Ok(_) => assert!(lengths.contains(&len), "type {kind}, {len} bytes"),
                Err(error) => {
                    assert!(!lengths.contains(&len), "type {kind}, {len} bytes");
                    assert_eq!(error, MalformedMessage::WrongLength { kind, len });
                }
            }
        }
    }
}

#[test]
fn reserved_bytes_and_other_types_are_refused() {
    for word in [0_u32, 5, 0x0100_0004, 0x0001_0004, 0x0000_0104, 0x0400_0000] {
        let mut datagram = [0; 148];
        datagram[..4].copy_from_slice(&word.to_le_bytes());
        assert_eq!(classify(&datagram).unwrap_err(), MalformedMessage::UnknownType { word });
    }
    assert_eq!(classify(&[4, 0, 0]).unwrap_err(), MalformedMessage::Short { len: 3 });
}

#[test]
fn ranges_follow_each_other_without_gap() {
    let layouts: [(&[Range<usize>], usize); 3] = [
        (
            &[
                initiation::SENDER,
                initiation::EPHEMERAL,
                initiation::STATIC,
                initiation::TIMESTAMP,
                initiation::MAC1,
                initiation::MAC2,
            ],
            initiation::LEN,
        ),
        (
            &[
                response::SENDER,
                response::RECEIVER,
                response::EPHEMERAL,
                response::EMPTY,
                response::MAC1,
                response::MAC2,
            ],
            response::LEN,
        ),
        (&[cookie_reply::RECEIVER, cookie_reply::NONCE, cookie_reply::COOKIE], cookie_reply::LEN),
    ];
    for (ranges, len) in layouts {
        let end = ranges.iter().fold(4, |at, range| {
            assert_eq!(range.start, at);
            range.end
        });
        assert_eq!(end, len);
    }
    assert_eq!((data::RECEIVER, data::COUNTER), (4..8, 8..DATA_HEADER));
}

#[test]
fn what_is_written_is_read() {
    let mut out = [0xff; initiation::LEN];
    write_initiation(&mut out, 0x0403_0201, &[1; 32], &[2; 48], &[3; 28]);
    assert_eq!(out[..8], [1, 0, 0, 0, 1, 2, 3, 4]);
    out[initiation::MAC1].fill(4);
    out[initiation::MAC2].fill(5);
    let Ok(Message::Initiation(message)) = classify(&out) else { panic!("not an initiation") };
    assert_eq!((message.sender, message.ephemeral, message.sealed_static), (0x0403_0201, &[1; 32], &[2; 48]));
    assert_eq!((message.sealed_timestamp, message.mac1, message.mac2), (&[3; 28], &[4; 16], &[5; 16]));

    let mut out = [0xff; response::LEN];
    write_response(&mut out, 7, 0x8000_0009, &[1; 32], &[2; 16]);
    assert_eq!(out[..12], [2, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0x80]);
    let Ok(Message::Response(message)) = classify(&out) else { panic!("not a response") };
    assert_eq!((message.sender, message.receiver), (7, 0x8000_0009));
    assert_eq!((message.ephemeral, message.sealed_empty), (&[1; 32], &[2; 16]));
    assert_eq!((message.mac1, message.mac2), (&[0; 16], &[0; 16]));

    let mut out = [0xff; cookie_reply::LEN];
    write_cookie_reply(&mut out, 11, &[1; 24], &[2; 32]);
    let Ok(Message::CookieReply(message)) = classify(&out) else { panic!("not a cookie reply") };
    assert_eq!((message.receiver, message.nonce, message.sealed_cookie), (11, &[1; 24], &[2; 32]));
    assert_eq!(out[..8], [3, 0, 0, 0, 11, 0, 0, 0]);

    let mut out = [0xff; 40];
    write_data_header(out.first_chunk_mut().unwrap(), 13, 0x0807_0605_0403_0201);
    assert_eq!(out[..16], [4, 0, 0, 0, 13, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let Ok(Message::Data(message)) = classify(&out) else { panic!("not data") };
    assert_eq!((message.receiver, message.counter), (13, 0x0807_0605_0403_0201));
    assert_eq!(message.ciphertext, [0xff; 24]);
}

#[test]
fn padding_stops_at_the_mtu() {
    for (len, mtu, padded) in [
        (0, 1_420, 0),
        (1, 1_420, 16),
        (16, 1_420, 16),
        (1_408, 1_420, 1_408),
        (1_409, 1_420, 1_420),
        (1_420, 1_420, 1_420),
        (1_421, 1_420, 1_436),
        (2_840, 1_420, 2_840),
        (5, 0, 16),
        (1_419, 0, 1_424),
        (3, 5, 5),
    ] {
        assert_eq!(padded_len(len, mtu), padded, "len {len}, mtu {mtu}");
    }
}

proptest! {
    #[test]
    fn classify_takes_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..6) {
        let _ = classify(&bytes);
        if let Some(word) = bytes.first_chunk_mut::<4>() {
            *word = [kind, 0, 0, 0];
        }
        if let Ok(Message::Data(data)) = classify(&bytes) {
            prop_assert_eq!(data.ciphertext.len() + DATA_HEADER, bytes.len());
        }
    }

    #[test]
    fn padding_is_small_and_never_cuts(len: usize, mtu: usize) {
        let padded = padded_len(len, mtu);
        prop_assert!(padded >= len && padded - len < PADDING);
        prop_assert!(mtu == 0 || len > mtu || padded <= mtu);
    }
}
