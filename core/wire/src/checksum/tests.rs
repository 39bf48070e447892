use super::*;
use crate::testkit::naive_sum;
use proptest::prelude::*;

#[test]
fn example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
    assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
}

#[test]
fn longest_packet_of_ones_does_not_overflow() {
    assert_eq!(Sum::of(&[0xff; 65_535]).folded(), naive_sum(&[0xff; 65_535]));
}

#[test]
fn udp_has_no_zero() {
    assert_eq!(VALID.checksum(), 0);
    assert_eq!(VALID.udp_checksum(), 0xffff);
    assert_eq!(Sum::word(1).udp_checksum(), 0xfffe);
}

#[test]
fn pseudo_headers_count_every_field() {
    let four = pseudo_v4(Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(5, 6, 7, 8), 17, 0x1234);
    assert_eq!(four.folded(), naive_sum(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 17, 0x12, 0x34]));
    let (from, to) = (Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8), Ipv6Addr::new(9, 10, 11, 12, 13, 14, 15, 0xff16));
    let bytes = [&from.octets()[..], &to.octets()[..], &[0, 1, 0x23, 0x45, 0, 0, 0, 58]].concat();
    assert_eq!(pseudo_v6(from, to, 58, 0x0001_2345).folded(), naive_sum(&bytes));
}

proptest! {
    #[test]
    fn equals_the_naive_sum(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(Sum::of(&bytes).folded(), naive_sum(&bytes));
    }

    #[test]
    fn extreme_bytes_too(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xff)], 0..3_000)) {
        prop_assert_eq!(Sum::of(&bytes).folded(), naive_sum(&bytes));
    }

    #[test]
    fn pieces_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..150) {
        let (head, tail) = bytes.split_at((cut * 2).min(bytes.len() & !1));
        prop_assert_eq!(Sum::of(head) + Sum::of(tail), Sum::of(&bytes));
    }

    #[test]
    fn copying_copies_and_sums(bytes in proptest::collection::vec(any::<u8>(), 0..300), room in 0_usize..300) {
        let mut out = vec![0xaa; room];
        let len = room.min(bytes.len());
        prop_assert_eq!(Sum::copying(&bytes, &mut out), Sum::of(&bytes[..len]));
        prop_assert_eq!(&out[..len], &bytes[..len]);
        prop_assert!(out[len..].iter().all(|&byte| byte == 0xaa));
    }

    #[test]
    fn a_word_comes_and_goes(bytes in proptest::collection::vec(any::<u8>(), 2..60), field: u32) {
        prop_assume!(bytes.iter().any(|&byte| byte != 0));
        let sum = Sum::of(&bytes);
        prop_assert_eq!((sum + Sum::double(field)).minus(Sum::double(field).folded()), sum);
        prop_assert_eq!(Sum::double(field).folded(), naive_sum(&field.to_be_bytes()));
    }

    #[test]
    fn update_equals_new_sum(mut bytes in proptest::collection::vec(any::<u8>(), 20..60), new: u16) {
        bytes[0] = 0x45;
        let (old, checksum) = (u16::from_be_bytes([bytes[2], bytes[3]]), Sum::of(&bytes).checksum());
        bytes[2..4].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(updated(checksum, old, new), Sum::of(&bytes).checksum());
    }
}
