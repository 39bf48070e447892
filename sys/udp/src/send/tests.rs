use super::cursor::Cursor;
use super::{Sent, Transmit};
use crate::{UdpConfig, UdpSocket};
use std::io;

const CONFIG: UdpConfig =
    UdpConfig { port: 0, ipv4_only: true, send_buffer: 65_536, receive_buffer: 65_536, gso: true, gro: true };

/// Handles the error `code` of the kernel for a run, or for a single datagram if `segment_size` is 0. Returns whether the socket is full, the report, and the
/// cursor at which sending continues.
fn answer(code: i32, segment_size: usize) -> (bool, Sent, Cursor, UdpSocket) {
    let socket = UdpSocket::bind(&CONFIG).unwrap();
    let transmit =
        Transmit { destination: "192.0.2.1:9".parse().unwrap(), contents: &[0; 3_000], segment_size, ecn: 0 };
    let (mut cursor, mut report) = (Cursor::new(true), Sent::default());
    let full = socket.handle(io::Error::from_raw_os_error(code), &[transmit; 2], &mut cursor, &mut report);
    (full, report, cursor, socket)
}

fn is_run(cursor: Cursor, index: usize) -> bool {
    let transmit =
        Transmit { destination: "192.0.2.1:9".parse().unwrap(), contents: &[0; 3_000], segment_size: 1_000, ecn: 0 };
    let mut moved = cursor;
    while moved.index() < index {
        moved.skip();
    }
    moved.is_run(&[transmit; 2])
}

#[test]
fn a_full_buffer_blocks_without_a_failure() {
    let (full, report, cursor, _) = answer(libc::EAGAIN, 1_000);
    assert!(full && report.failed == 0 && cursor.index() == 0);
}

#[test]
fn a_signal_changes_nothing() {
    let (full, report, cursor, _) = answer(libc::EINTR, 1_000);
    assert!(!full && report.failed == 0);
    assert_eq!(cursor, Cursor::new(true));
}

#[test]
fn a_device_without_checksum_offload_switches_gso_off_permanently() {
    let (_, report, cursor, socket) = answer(libc::EIO, 1_000);
    assert_eq!((report.failed, cursor.index(), socket.features().gso), (0, 0, false));
    assert!(
        !is_run(cursor, 0) && !is_run(cursor, 1),
        "the refused run and all later ones are sent as single datagrams"
    );
}

#[test]
fn a_run_that_is_refused_for_itself_switches_gso_off_for_this_run_only() {
    for code in [libc::EINVAL, libc::EMSGSIZE] {
        let (_, report, cursor, socket) = answer(code, 1_000);
        assert_eq!((report.failed, cursor.index(), socket.features().gso), (0, 0, true));
        assert!(!is_run(cursor, 0) && is_run(cursor, 1));
    }
}

#[test]
fn an_error_of_one_destination_is_counted_and_skipped() {
    for (code, segment_size) in [(libc::EINVAL, 0), (libc::EIO, 0), (libc::EPERM, 1_000), (libc::EMSGSIZE, 0)] {
        let (full, report, cursor, socket) = answer(code, segment_size);
        assert!(!full && socket.features().gso);
        assert_eq!((report.failed, cursor.index()), (1, 1));
        let (index, error) = report.first_error.unwrap();
        assert_eq!((index, error.raw_os_error()), (0, Some(code)));
    }
}
