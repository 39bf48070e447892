use super::{Step, read_datagram, read_step};
use crate::message::NetlinkRequest;
use crate::parse::{Malformed, Message, messages};
use crate::{NetlinkError, abi};
use std::io;

fn answer(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = NetlinkRequest::new(kind, 0, payload).finish(1);
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn only(bytes: &[u8]) -> Message<'_> {
    messages(bytes).next().unwrap().unwrap()
}

fn end(bytes: &[u8]) -> (i32, Option<String>) {
    match read_step(only(bytes)).unwrap() {
        Step::End(code, words) => (code, words),
        Step::Object(_) => panic!("the message does not end the answer"),
    }
}

/// Returns an error message of the kernel: the error number, the header of the request, `rest` as the rest of the request, and the kernel's text.
fn refusal(request_len: u32, rest: &[u8]) -> Vec<u8> {
    let mut payload = (-libc::ENODEV).to_ne_bytes().to_vec();
    payload.extend(request_len.to_ne_bytes());
    payload.extend([0; 12]);
    payload.extend(rest);
    let words = NetlinkRequest::new(0, 0, &[]).attribute(abi::NLMSGERR_ATTR_MSG, b"Device does not exist\0").finish(0);
    payload.extend(&words[16..]);
    payload
}

#[test]
fn acknowledgements_and_ends_of_dumps_end() {
    assert_eq!(end(&answer(abi::NLMSG_ERROR, 0, &[0; 20])), (0, None));
    assert_eq!(end(&answer(abi::NLMSG_DONE, 0, &[0; 4])), (0, None));
    assert_eq!(end(&answer(abi::NLMSG_DONE, 0, &[])), (0, None));
    let failed = (-libc::EINTR).to_ne_bytes();
    assert_eq!(end(&answer(abi::NLMSG_DONE, 0, &failed)).0, -libc::EINTR, "a dump may fail at its end");
}

#[test]
fn the_kernels_error_text_is_found_with_and_without_the_request_before_it() {
    let words = Some("Device does not exist".to_owned());
    let capped = abi::NLM_F_CAPPED | abi::NLM_F_ACK_TLVS;
    assert_eq!(end(&answer(abi::NLMSG_ERROR, capped, &refusal(32, &[]))), (-libc::ENODEV, words.clone()));
    assert_eq!(end(&answer(abi::NLMSG_ERROR, abi::NLM_F_ACK_TLVS, &refusal(32, &[7; 16]))), (-libc::ENODEV, words));
    assert_eq!(end(&answer(abi::NLMSG_ERROR, 0, &refusal(32, &[]))), (-libc::ENODEV, None));
}

#[test]
fn invalid_lengths_lose_only_the_kernels_error_text() {
    for length in [0, 15, u32::MAX] {
        let bytes = answer(abi::NLMSG_ERROR, abi::NLM_F_ACK_TLVS, &refusal(length, &[]));
        assert_eq!(end(&bytes), (-libc::ENODEV, None));
    }
}

#[test]
fn lost_messages_and_empty_errors_are_malformed() {
    let lost = answer(abi::NLMSG_OVERRUN, 0, &[]);
    assert!(matches!(read_step(only(&lost)), Err(Malformed(_))));
    let empty = answer(abi::NLMSG_ERROR, 0, &[]);
    assert!(matches!(read_step(only(&empty)), Err(Malformed(_))));
}

/// Reads a datagram as the answer to request 1. Returns the kinds of its objects, whether the dump is consistent, and the code at its end.
fn digest(datagram: &[u8]) -> (Vec<u16>, bool, Option<i32>) {
    let (mut kinds, mut consistent) = (Vec::new(), true);
    let end = read_datagram(datagram, 1, &mut consistent, &mut |message| {
        kinds.push(message.kind);
        Ok(())
    });
    (kinds, consistent, end.unwrap().map(|(code, _)| code))
}

#[test]
fn only_objects_of_the_own_request_before_its_end_are_read() {
    let link = answer(abi::RTM_NEWLINK, 0, &[]);
    let done = answer(abi::NLMSG_DONE, 0, &[0; 4]);
    let mut leftover = answer(abi::NLMSG_ERROR, 0, &(-libc::EPERM).to_ne_bytes());
    leftover[8] ^= 4;
    let mut stray = answer(abi::RTM_NEWADDR, abi::NLM_F_DUMP_INTR, &[]);
    stray[8] ^= 4;
    let datagram = [&*leftover, &link, &stray, &link, &done, &link].concat();
    assert_eq!(digest(&datagram), (vec![abi::RTM_NEWLINK; 2], true, Some(0)));
    assert_eq!(digest(&[&*link, &leftover].concat()), (vec![abi::RTM_NEWLINK], true, None));
}

#[test]
fn one_interrupted_message_makes_a_dump_inconsistent() {
    let link = answer(abi::RTM_NEWLINK, 0, &[]);
    let changed = answer(abi::RTM_NEWLINK, abi::NLM_F_DUMP_INTR, &[]);
    assert!(!digest(&[&*changed, &link].concat()).1);
    assert!(
        !digest(&answer(abi::NLMSG_DONE, abi::NLM_F_DUMP_INTR, &[0; 4])).1,
        "the flag of an interrupted dump may be in its last message"
    );
}

#[test]
fn a_refusal_names_the_operation_the_cause_and_the_remedy() {
    let error = NetlinkError::Refused {
        operation: "add the address",
        object: "192.0.2.1/24 on interface 3".to_owned(),
        source: io::Error::from_raw_os_error(libc::EPERM),
        detail: Some("no".to_owned()),
    };
    let text = error.to_string();
    for part in ["add the address 192.0.2.1/24 on interface 3", "not permitted", "the kernel says: no", "CAP_NET_ADMIN"]
    {
        assert!(text.contains(part), "{text}");
    }
}
