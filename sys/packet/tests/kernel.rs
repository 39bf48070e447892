//! The packet socket on a real kernel, on a device whose far side is the test, so that every received and sent byte is known.
#![expect(unsafe_code, reason = "the tests wait and change their user through libc")]
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod wire;

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use taut_namespace::in_namespace;
use taut_packet::{FrameBatch, MAX_FRAMES, PacketConfig, PacketSocket, ReceivedFrame, VIRTIO_HEADER};
use wire::{ETHERNET, MTU, WIRE, Wire};

const CONFIG: PacketConfig<'_> = PacketConfig { interface: WIRE, superpackets: false, receive_buffer: 1 << 20 };
/// The virtio header of a frame without offloads.
const FINISHED: [u8; VIRTIO_HEADER] = [0; VIRTIO_HEADER];
/// Payload bytes of a segment of a superpacket.
const SEGMENT: u16 = 1_000;
/// Bytes of the Ethernet, IPv4 and TCP headers, without options.
const HEADERS: usize = ETHERNET + 20 + 20;

/// Returns a frame of `length` bytes, of a protocol that no kernel handles (EtherType 0x88b5, reserved for experiments by IEEE 802).
fn frame(length: usize, number: u8) -> Vec<u8> {
    let mut frame = vec![number; length];
    frame[..ETHERNET].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// Returns a TCP packet with `payload` bytes.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = frame(HEADERS + payload, 0x5a);
    frame[12..ETHERNET].copy_from_slice(&[8, 0]);
    let length = u16::try_from(HEADERS - ETHERNET + payload).unwrap().to_be_bytes();
    let ip = [0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
    frame[ETHERNET..ETHERNET + 20].copy_from_slice(&ip);
    frame[ETHERNET + 20..HEADERS].copy_from_slice(&[9, 9, 9, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 4, 0, 0, 0, 0, 0]);
    frame
}

/// Returns the virtio header of a TCP packet with a partial checksum (include/uapi/linux/virtio_net.h), to be split into segments of `segment` payload bytes. 0
/// means a single segment.
fn unfinished(segment: u16) -> [u8; VIRTIO_HEADER] {
    let (needs_checksum, kind) = (1, u8::from(segment > 0));
    let [headers, segment, start, offset] = [HEADERS as u16, segment, ETHERNET as u16 + 20, 16].map(u16::to_ne_bytes);
    let headers = if kind == 0 { [0, 0] } else { headers };
    [needs_checksum, kind, headers[0], headers[1], segment[0], segment[1], start[0], start[1], offset[0], offset[1]]
}

fn batch() -> FrameBatch {
    FrameBatch::new(ETHERNET + MTU)
}

/// Waits for frames and receives them. The limit of 20 s suffices for the slowest machine; only a missing frame reaches it.
fn receive(socket: &PacketSocket, batch: &mut FrameBatch) -> usize {
    let mut slot = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives across the call.
    assert_eq!(unsafe { libc::poll(&raw mut slot, 1, 20_000) }, 1, "nothing arrived");
    socket.receive(batch).unwrap()
}

/// Returns the frame at `place` of the last call, and replaces its buffer by an empty one.
fn taken(batch: &mut FrameBatch, place: usize, room: usize) -> Vec<u8> {
    let length = batch.get(place).unwrap().length;
    let buffer = batch.swap(place, vec![0; room].into());
    buffer[..length.min(room)].to_vec()
}

fn assert_no_more_frames(socket: &PacketSocket) {
    assert_eq!(socket.receive(&mut batch()).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn frames_arrive_whole_and_in_order_and_fill_a_receive_call() {
    in_namespace(|| {
        let wire = Wire::new();
        let (socket, mut batch) = (PacketSocket::open(&CONFIG).unwrap(), batch());
        assert_eq!((socket.mtu(), socket.superpackets(), batch.is_empty()), (MTU, false, true));
        assert_no_more_frames(&socket);
        let lengths: Vec<usize> = (0..MAX_FRAMES + 6).map(|number| 60 + 20 * number).collect();
        for (number, length) in (0..).zip(&lengths) {
            wire.arrives(FINISHED, &frame(*length, number));
        }
        assert_eq!((receive(&socket, &mut batch), batch.len()), (MAX_FRAMES, MAX_FRAMES));
        for (place, length) in lengths.iter().enumerate().take(MAX_FRAMES) {
            let ReceivedFrame { length: told, unfinished, .. } = batch.get(place).unwrap();
            assert_eq!((told, unfinished), (*length, false));
            assert!(taken(&mut batch, place, ETHERNET + MTU) == frame(*length, place as u8), "frame {place}");
        }
        assert_eq!((receive(&socket, &mut batch), batch.get(6)), (6, None));
        assert!(taken(&mut batch, 5, ETHERNET + MTU) == frame(*lengths.last().unwrap(), MAX_FRAMES as u8 + 5));
        assert_no_more_frames(&socket);
        assert_eq!(socket.missed().unwrap(), 0);
    });
}

#[test]
fn a_frame_has_its_age() {
    in_namespace(|| {
        const WAIT: Duration = Duration::from_millis(5);
        let wire = Wire::new();
        let (socket, mut batch) = (PacketSocket::open(&CONFIG).unwrap(), batch());
        // The kernel enables timestamps with a delay. Until then the time of a frame is that of its receive call.
        let stamped = (0..1_000).any(|_| {
            let start = Instant::now();
            wire.arrives(FINISHED, &frame(100, 0));
            thread::sleep(WAIT);
            assert_eq!(receive(&socket, &mut batch), 1);
            let age = batch.get(0).unwrap().age;
            assert!(age <= start.elapsed(), "{age:?}");
            age >= WAIT
        });
        assert!(stamped);
    });
}

#[test]
fn a_partial_checksum_is_reported() {
    in_namespace(|| {
        let wire = Wire::new();
        let (socket, mut batch) = (PacketSocket::open(&CONFIG).unwrap(), batch());
        wire.arrives(unfinished(0), &tcp(100));
        wire.arrives(FINISHED, &tcp(100));
        assert_eq!(receive(&socket, &mut batch), 2);
        let seen = [0, 1].map(|place| batch.get(place).map(|received| (received.length, received.unfinished)));
        assert_eq!(seen, [Some((HEADERS + 100, true)), Some((HEADERS + 100, false))]);
    });
}

#[test]
fn a_frame_that_is_longer_than_its_buffer_reports_its_full_length() {
    in_namespace(|| {
        let wire = Wire::new();
        let (socket, mut batch) = (PacketSocket::open(&CONFIG).unwrap(), FrameBatch::new(1_000));
        wire.arrives(FINISHED, &frame(1_200, 7));
        wire.arrives(unfinished(SEGMENT), &tcp(4_000));
        assert_eq!(receive(&socket, &mut batch), 2);
        assert_eq!([0, 1].map(|place| batch.get(place).unwrap().length), [1_200, HEADERS + 4_000]);
        assert!(taken(&mut batch, 0, 1_000) == frame(1_200, 7)[..1_000]);
        // A buffer of another size is returned unused, and the frame stays in the batch.
        assert_eq!(batch.swap(1, vec![1; 10].into()).len(), 10);
        assert!(taken(&mut batch, 1, 1_000) == tcp(4_000)[..1_000]);
    });
}

#[test]
fn frames_that_this_host_sends_are_not_received() {
    in_namespace(|| {
        let wire = Wire::new();
        let socket = PacketSocket::open(&CONFIG).unwrap();
        wire.send_broadcast();
        assert_eq!(socket.send(&[&frame(100, 1)]).unwrap(), 1);
        assert_eq!(wire.left().len(), 2, "the datagram and the frame both left");
        assert_no_more_frames(&socket);
    });
}

#[test]
fn frames_without_room_in_the_buffer_are_counted_once() {
    in_namespace(|| {
        const FRAMES: u32 = 200;
        let wire = Wire::new();
        let socket = PacketSocket::open(&PacketConfig { receive_buffer: 8 << 10, ..CONFIG }).unwrap();
        (0..FRAMES).for_each(|number| wire.arrives(FINISHED, &frame(1_000, number as u8)));
        let (mut batch, mut came) = (batch(), 0);
        while let Ok(count) = socket.receive(&mut batch) {
            came += count as u32;
        }
        let missed = socket.missed().unwrap();
        assert!(came > 0 && missed > 0, "{came} frames arrived, {missed} were missed");
        assert_eq!((came + missed, socket.missed().unwrap()), (FRAMES, 0));
    });
}

#[test]
fn a_socket_without_a_receive_buffer_only_sends() {
    in_namespace(|| {
        let wire = Wire::new();
        let socket = PacketSocket::open(&PacketConfig { receive_buffer: 0, ..CONFIG }).unwrap();
        wire.arrives(FINISHED, &frame(100, 1));
        assert_no_more_frames(&socket);
        assert_eq!((socket.send(&[&frame(100, 2)]).unwrap(), socket.missed().unwrap()), (1, 0));
        assert_eq!(wire.left(), [[FINISHED.as_slice(), &frame(100, 2)].concat()]);
    });
}

#[test]
fn send_returns_the_number_of_frames_that_left() {
    in_namespace(|| {
        let wire = Wire::new();
        let socket = PacketSocket::open(&CONFIG).unwrap();
        let frames: Vec<Vec<u8>> = (0..MAX_FRAMES + 3).map(|number| frame(60 + number, number as u8)).collect();
        let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        assert_eq!(socket.send(&slices).unwrap(), MAX_FRAMES, "one call sends at most MAX_FRAMES");
        assert_eq!(socket.send(&slices[MAX_FRAMES..]).unwrap(), 3);
        let left = wire.left();
        assert!(
            left.iter().map(|bytes| &bytes[VIRTIO_HEADER..]).eq(slices.iter().copied()),
            "all frames leave in order"
        );

        let (short, long) = (frame(60, 1), frame(ETHERNET + MTU + 1, 2));
        assert_eq!(socket.send(&[&short, &long, &short]).unwrap(), 1, "sending stops at the frame that is too long");
        assert_eq!(socket.send(&[&long, &short]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(wire.left().len(), 1);
        wire.down();
        assert_eq!(socket.send(&[&short]).unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
    });
}

#[test]
fn superpackets_are_not_split_in_either_direction() {
    in_namespace(|| {
        const ROOM: usize = VIRTIO_HEADER + ETHERNET + 65_535;
        let wire = Wire::new();
        let socket = PacketSocket::open(&PacketConfig { superpackets: true, ..CONFIG }).unwrap();
        assert!(socket.superpackets());
        let mut batch = FrameBatch::new(ROOM);
        let (large, small) = (tcp(4 * usize::from(SEGMENT)), frame(100, 3));
        wire.arrives(unfinished(SEGMENT), &large);
        wire.arrives(FINISHED, &small);
        assert_eq!(receive(&socket, &mut batch), 2);
        let [superpacket, single] = [0, 1].map(|place| taken(&mut batch, place, ROOM));
        assert!(superpacket[VIRTIO_HEADER..] == large && single[VIRTIO_HEADER..] == small);
        // The kind of the superpacket and the place of its checksum are compared. The header length is not, because the kernel only estimates it.
        assert_eq!((&superpacket[..2], &superpacket[4..VIRTIO_HEADER]), (&[1, 1][..], &unfinished(SEGMENT)[4..]));
        assert_eq!(single[..2], [0, 0]);

        assert_eq!(socket.send(&[&superpacket, &single]).unwrap(), 2);
        let left = wire.left();
        assert_eq!(left.len(), 2, "the superpacket leaves as one of two frames");
        assert!(left[0][VIRTIO_HEADER..] == large && left[1][VIRTIO_HEADER..] == small);
        assert_eq!((&left[0][..2], &left[0][4..6]), (&[1, 1][..], &SEGMENT.to_ne_bytes()[..]));
    });
}

#[test]
fn a_removed_interface_is_an_error() {
    in_namespace(|| {
        let wire = Wire::new();
        let socket = PacketSocket::open(&CONFIG).unwrap();
        drop(wire);
        let error = (0..1_000)
            .find_map(|_| {
                thread::sleep(Duration::from_millis(1));
                socket.receive(&mut batch()).err().filter(|error| error.kind() != ErrorKind::WouldBlock)
            })
            .map(|error| error.raw_os_error());
        assert_eq!(error, Some(Some(libc::ENETDOWN)));
    });
}

#[test]
fn a_missing_interface_is_named_in_the_error() {
    in_namespace(|| {
        let error = PacketSocket::open(&PacketConfig { interface: "nowhere", ..CONFIG }).unwrap_err().to_string();
        assert!(error.starts_with("could not find the interface for nowhere: "), "{error}");
        assert!(error.ends_with("; there is no such interface in this network namespace, see: ip link"), "{error}");
        assert!(PacketSocket::open(&PacketConfig { interface: "a\0b", ..CONFIG }).is_err());
    });
}

#[test]
fn a_missing_capability_is_named_in_the_error() {
    let told = thread::spawn(|| {
        let nobody: libc::c_long = 65_534;
        // The system call instead of libc's function changes the user of this thread only. Without root it fails, which does no harm.
        // SAFETY: the call takes no pointers.
        unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
        PacketSocket::open(&PacketConfig { interface: "lo", ..CONFIG }).map_err(|error| error.to_string())
    });
    let error = told.join().unwrap().unwrap_err();
    assert!(error.starts_with("could not open a packet socket for lo: "), "{error}");
    assert!(error.ends_with("; run it as root, or give it CAP_NET_RAW"), "{error}");
}
