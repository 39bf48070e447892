use proptest::prelude::*;

use super::*;
use crate::testkit::{Answer, names, names_with, query, question};

const UDP: Transport = Transport::Udp(MAX_UDP);

fn ask(name: &str, kind: u16) -> Answer {
    Answer::of(&respond(&names(), &question(name, kind), UDP).unwrap())
}

#[test]
fn a_node_is_found_by_name_in_any_case() {
    let answer = ask("WEB.Home.taut.internal", kind::A);
    assert_eq!((answer.code, answer.answers.as_slice()), (0, &[(kind::A, vec![100, 64, 0, 2])][..]));
    assert!(answer.is_authoritative && !answer.is_cut && answer.authorities.is_empty());
    assert_eq!(answer.question, "WEB.Home.taut.internal", "the client's spelling");
    assert_eq!(
        ask("web.home.taut.internal", kind::AAAA).answers,
        [(kind::AAAA, [&[0xfd, 0x12], &[0; 13][..], &[2]].concat())]
    );
}

#[test]
fn an_address_has_its_nodes_name() {
    let names_of = |name: &str| ask(name, kind::PTR).answers.into_iter().map(|(_, data)| data).collect::<Vec<_>>();
    assert_eq!(names_of("2.0.64.100.in-addr.arpa"), [b"\x03web\x04home\x04taut\x08internal\0".to_vec()]);
    assert_eq!(
        names_of("0.0.64.100.in-addr.arpa"),
        [b"\x04home\x04taut\x08internal\0".to_vec()],
        "the stub's own address"
    );
    let v6 = format!("2{}.2.1.d.f.ip6.arpa", ".0".repeat(27));
    assert_eq!(names_of(&v6), [b"\x03web\x04home\x04taut\x08internal\0".to_vec()]);
}

#[test]
fn fault_h5_no_data_is_not_no_name() {
    for (name, kind, code) in [
        ("web.home.taut.internal", 15, 0),
        ("v4.home.taut.internal", kind::AAAA, 0),
        ("home.taut.internal", kind::PTR, 0),
        ("nobody.home.taut.internal", kind::A, 3),
        ("a.web.home.taut.internal", kind::A, 3),
        ("64.100.in-addr.arpa", kind::PTR, 0),
        ("0.64.100.in-addr.arpa", kind::PTR, 0),
        ("9.64.100.in-addr.arpa", kind::PTR, 3),
        ("9.0.64.100.in-addr.arpa", kind::PTR, 3),
        ("x.0.64.100.in-addr.arpa", kind::PTR, 3),
        ("127.100.in-addr.arpa", kind::A, 0),
    ] {
        let answer = ask(name, kind);
        assert_eq!((answer.code, answer.answers.len()), (code, 0), "{name}");
        assert_eq!(answer.authorities.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [kind::SOA], "{name}");
        assert!(answer.is_authoritative, "{name}");
    }
}

#[test]
fn the_zone_has_an_soa_a_server_and_its_addresses() {
    let soa = &ask("home.taut.internal", kind::SOA).answers[0].1;
    assert_eq!(soa[soa.len() - 20..soa.len() - 16], 7_u32.to_be_bytes(), "the serial is the map's version");
    assert_eq!(ask("home.taut.internal", kind::NS).answers, [(kind::NS, b"\x04home\x04taut\x08internal\0".to_vec())]);
    assert_eq!(ask("home.taut.internal", kind::A).answers, [(kind::A, vec![100, 64, 0, 0])]);
    assert_eq!(ask("64.100.in-addr.arpa", kind::SOA).answers.len(), 1);
}

#[test]
fn any_gets_one_set_of_records() {
    assert_eq!(ask("web.home.taut.internal", kind::ANY).answers, [(kind::A, vec![100, 64, 0, 2])]);
    assert_eq!(ask("home.taut.internal", kind::ANY).answers[0].0, kind::SOA);
    assert_eq!(ask("2.0.64.100.in-addr.arpa", kind::ANY).answers[0].0, kind::PTR);
}

#[test]
fn foreign_names_and_transfers_are_refused() {
    for (name, kind) in [
        ("example.com", kind::A),
        ("taut.internal", kind::SOA),
        ("other.taut.internal", kind::A),
        ("xhome.taut.internal", kind::A),
        ("1.0.0.10.in-addr.arpa", kind::PTR),
        ("128.100.in-addr.arpa", kind::PTR),
        ("100.in-addr.arpa", kind::PTR),
        ("home.taut.internal", 252),
        ("home.taut.internal", 251),
    ] {
        let answer = ask(name, kind);
        assert_eq!((answer.code, answer.answers.len(), answer.authorities.len()), (5, 0, 0), "{name}");
        assert!(!answer.is_authoritative);
    }
    let chaos = query(0x0100, "version.bind", [16, 3], &[]);
    assert_eq!(Answer::of(&respond(&names(), &chaos, UDP).unwrap()).code, 5);
}

#[test]
fn malformed_messages_get_a_format_error_and_answers_get_none() {
    let names = names();
    let good = question("web.home.taut.internal", kind::A);
    let code = |message: &[u8]| respond(&names, message, UDP).map(|answer| Answer::of(&answer).code);
    let with = |at: usize, byte: u8| [&good[..at], &[byte], &good[at + 1..]].concat();
    assert_eq!(code(&with(5, 0)), Some(1), "no question");
    assert_eq!(code(&with(5, 2)), Some(1), "two questions");
    assert_eq!(code(&with(11, 1)), Some(1), "a record that is not there");
    assert_eq!(code(&with(12, 0xc0)), Some(1), "a pointer");
    assert_eq!(code(&good[..good.len() - 1]), Some(1));
    assert_eq!(code(&with(2, 0x28)), Some(4), "UPDATE");
    assert_eq!(code(&with(2, 0x80)), None, "an answer");
    assert_eq!(code(&good[..11]), None);
}

#[test]
fn edns_is_answered_with_edns() {
    let with_option = |options: &[u8]| query(0x0100, "web.home.taut.internal", [kind::A, 1], options);
    let ask = |message: &[u8]| Answer::of(&respond(&names(), message, UDP).unwrap());
    let opt = |version, flags| [0, 0, 41, 4, 208, 0, version, flags, 0, 0, 0];
    let answer = ask(&with_option(&opt(0, 0x80)));
    assert_eq!((answer.code, answer.answers.len()), (0, 1));
    assert_eq!(answer.edns, Some((MAX_UDP, 0, true)));
    let answer = ask(&with_option(&opt(1, 0)));
    assert_eq!((answer.code, answer.answers.len(), answer.edns), (0, 0, Some((MAX_UDP, 1, false))), "BADVERS is 16");
    let mut twice = with_option(&[opt(0, 0), opt(0, 0)].concat());
    twice[11] = 2;
    assert_eq!(ask(&twice).code, 1);
}

#[test]
fn what_a_client_cannot_take_is_cut_for_udp_only() {
    let many: Vec<IpAddr> = (1..60).map(|host| IpAddr::from([100, 64, 1, host])).collect();
    let names = names_with(&[("many", &many)]);
    let plain = question("many.home.taut.internal", kind::A);
    let opt = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
    let large = query(0x0100, "many.home.taut.internal", [kind::A, 1], &opt);
    let ask = |message: &[u8], transport| Answer::of(&respond(&names, message, transport).unwrap());
    for (message, transport, answers) in
        [(&plain, UDP, 0), (&large, UDP, 59), (&large, Transport::Udp(600), 0), (&plain, Transport::Tcp, 59)]
    {
        let answer = ask(message, transport);
        assert_eq!((answer.answers.len(), answer.is_cut), (answers, answers == 0), "{transport:?}");
    }
}

proptest! {
    /// Answers to anything are answers, repeat the identifier, and have at most the bytes that the transport carries.
    #[test]
    fn any_bytes_get_a_valid_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut near = query(0x0100, "web.home.taut.internal", [kind::A, 1], &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        let place = at.index(near.len());
        near[place] = byte;
        for message in [&bytes, &near] {
            if let Some(answer) = respond(&names(), message, UDP) {
                prop_assert_eq!(&answer[..2], &message[..2]);
                prop_assert!(answer[2] & 0x80 != 0 && answer.len() <= usize::from(MAX_UDP));
                let _ = Answer::of(&answer);
                prop_assert_eq!(respond(&names(), &answer, UDP), None);
            }
        }
    }
}

#[test]
fn records_of_the_operator_are_answered_and_nodes_come_first() {
    let names = crate::testkit::chosen_names();
    let answer = |name: &str, kind| Answer::of(&respond(&names, &question(name, kind), Transport::Tcp).unwrap());
    let address = |name: &str| answer(name, kind::A).answers.first().map(|(_, data)| data.clone());
    let (printer, app) = (Some(vec![10, 1, 0, 7]), Some(vec![10, 1, 0, 8]));
    assert_eq!(address("printer.home.taut.internal"), printer);
    assert_eq!(address("web.home.taut.internal"), Some(vec![100, 64, 0, 2]), "a node's name is the node's");
    assert_eq!(address("x.y.home.taut.internal"), app);
    assert_eq!(address("x.apps.example"), app);
    assert_eq!(address("GIT.corp.example"), printer);
    for (name, code) in [
        ("printer.home.taut.internal", 0),
        ("b.home.taut.internal", 0),
        ("apps.example", 0),
        ("x.web.home.taut.internal", 3),
        ("x.printer.home.taut.internal", 3),
        ("x.git.corp.example", 3),
        ("example", 5),
        ("www.example", 5),
    ] {
        let answer = answer(name, kind::AAAA);
        assert_eq!((answer.code, answer.answers.len()), (code, 0), "{name}");
        assert_eq!(answer.authorities.len(), usize::from(code != 5), "{name}: the SOA bounds how long it is kept");
    }
}

#[test]
fn fault_h5_an_answer_that_is_too_long_is_cut_and_says_so() {
    let mut answer = question("x.corp.example", kind::A);
    answer[2] |= 0x80;
    answer[7] = 40;
    answer.extend([0; 1_300]);
    assert_eq!(cut_to(&answer, 2_000), answer);
    let cut = Answer::of(&cut_to(&answer, 1_232));
    assert!(cut.is_cut && cut.question == "x.corp.example" && cut.answers.is_empty());
    assert_eq!(cut_to(&[1; 20], 4).len(), 12, "a damaged one is harmless");
}
