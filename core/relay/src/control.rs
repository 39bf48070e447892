//! Control messages between a bound client and its relay, and their encryption.
//!
//! All messages have 40 bytes, so that an observer cannot tell their kinds apart. Integers are little-endian. Unnamed bytes are sent as zero and ignored when read.
//!
//! ```text
//! ping     1 0 0 0  0 (4)   nonce (8)                          client → relay
//! pong     2 0 0 0  0 (4)   nonce (8)  address (16)  port (2)  relay → client, with the client's address
//! open     3 0 0 0  id (4)  node key (32)                      client → relay: open a channel to that node with this number, if the number is free
//! close    4 0 0 0  0 (4)   node key (32)                      client → relay: close that channel
//! opened   5 0 0 0  id (4)  node key (32)                      relay → client: that node is bound, and has this number now
//! absent   6 0 0 0  id (4)  node key (32)                      relay → client: it is not bound; `arrived` follows when it is
//! arrived  7 0 0 0  id (4)  node key (32)                      relay → client: it was bound, or has opened this client
//! refused  8 0 0 0  0 (4)   node key (32)                      relay → client: the client or that node has too many channels
//! leave    9 why 0 0                                           both: this binding ends. 0 the sender leaves, 1 another binding replaced it, 2 the ticket has expired
//! challenge  10 0 0 0   0 (4)   nonce (16)                     relay → client: answer from the place at which this came
//! response   11 0 0 0   0 (4)   nonce (16)                     client → relay
//! lane       12 lane 0 0                                       client → relay: this frame comes from the socket of this lane
//! prove      13 lane 0 0  0 (4)  nonce (16)                    relay → client: answer from the socket of this lane
//! proof      14 lane 0 0  0 (4)  nonce (16)                    client → relay
//! lane bound 15 lane 0 0                                       relay → client: data of this lane is forwarded
//! lane end   16 lane 0 0                                       client → relay: the lane has ended
//! ```

use std::net::SocketAddr;

use taut_base::PublicKey;
use taut_noise::{AeadKey, TAG};

use crate::frame::{CONTROL, CONTROL_LEN, ECHO_LEN, MESSAGE_LEN, header, le32};
use crate::handshake::{Keys, read_address, write_address};

/// Number of sent frames whose tags are kept, 8: as many as a client sends before it learns that the relay has forgotten it.
const TAGS: usize = 8;

/// Bytes of a challenge's nonce: 128 bits cannot be guessed.
pub(crate) const NONCE_LEN: usize = 16;

/// Maximum number of lanes of one client, 16, the first included: the low 4 bits of a number name one.
pub(crate) const MAX_LANES: u8 = 16;

/// The reason why a binding ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    Away,
    Replaced,
    Expired,
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlMessage {
    Ping { nonce: u64 },
    Pong { nonce: u64, seen: SocketAddr },
    Open { id: u32, node: PublicKey },
    Close { node: PublicKey },
    Opened { id: u32, node: PublicKey },
    Absent { id: u32, node: PublicKey },
    Arrived { id: u32, node: PublicKey },
    Refused { node: PublicKey },
    Leave(LeaveReason),
    Challenge { nonce: [u8; NONCE_LEN] },
    Response { nonce: [u8; NONCE_LEN] },
    Lane { lane: u8 },
    Prove { lane: u8, nonce: [u8; NONCE_LEN] },
    Proof { lane: u8, nonce: [u8; NONCE_LEN] },
    LaneBound { lane: u8 },
    LaneEnd { lane: u8 },
}

impl ControlMessage {
    pub(crate) fn write(&self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        let mut named = |kind, id: u32, node: &PublicKey| {
            bytes[0] = kind;
            bytes[4..8].copy_from_slice(&id.to_le_bytes());
            bytes[8..].copy_from_slice(node.as_bytes());
        };
        match *self {
            Self::Open { id, node } => named(3, id, &node),
            Self::Close { node } => named(4, 0, &node),
            Self::Opened { id, node } => named(5, id, &node),
            Self::Absent { id, node } => named(6, id, &node),
            Self::Arrived { id, node } => named(7, id, &node),
            Self::Refused { node } => named(8, 0, &node),
            Self::Ping { nonce } => {
                bytes[0] = 1;
                bytes[8..16].copy_from_slice(&nonce.to_le_bytes());
            }
            Self::Pong { nonce, seen } => {
                bytes[0] = 2;
                bytes[8..16].copy_from_slice(&nonce.to_le_bytes());
                write_address(&mut bytes[16..], seen);
            }
            Self::Leave(why) => bytes[..2].copy_from_slice(&[9, why as u8]),
            Self::Challenge { nonce } => proving(&mut bytes, 10, 0, &nonce),
            Self::Response { nonce } => proving(&mut bytes, 11, 0, &nonce),
            Self::Lane { lane } => bytes[..2].copy_from_slice(&[12, lane]),
            Self::Prove { lane, nonce } => proving(&mut bytes, 13, lane, &nonce),
            Self::Proof { lane, nonce } => proving(&mut bytes, 14, lane, &nonce),
            Self::LaneBound { lane } => bytes[..2].copy_from_slice(&[15, lane]),
            Self::LaneEnd { lane } => bytes[..2].copy_from_slice(&[16, lane]),
        }
        bytes
    }

    /// Returns true for a message that a client sends from the socket of a lane beyond the first.
    pub(crate) fn is_of_lane(&self) -> bool {
        matches!(self, Self::Lane { .. } | Self::Proof { .. })
    }

    /// Reads an authentic message; `None` for one of a later version.
    pub(crate) fn parse(bytes: &[u8; MESSAGE_LEN]) -> Option<Self> {
        let id = le32(bytes, 4);
        let node = PublicKey(*bytes.last_chunk()?);
        let nonce = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let challenge: [u8; NONCE_LEN] = *bytes[8..].first_chunk()?;
        Some(match bytes[0] {
            1 => Self::Ping { nonce },
            2 => Self::Pong { nonce, seen: read_address(&bytes[16..]) },
            3 => Self::Open { id, node },
            4 => Self::Close { node },
            5 => Self::Opened { id, node },
            6 => Self::Absent { id, node },
            7 => Self::Arrived { id, node },
            8 => Self::Refused { node },
            9 => Self::Leave(match bytes[1] {
                1 => LeaveReason::Replaced,
                2 => LeaveReason::Expired,
                _ => LeaveReason::Away,
            }),
            10 => Self::Challenge { nonce: challenge },
            11 => Self::Response { nonce: challenge },
            12 => Self::Lane { lane: extra_lane(bytes[1])? },
            13 => Self::Prove { lane: extra_lane(bytes[1])?, nonce: challenge },
            14 => Self::Proof { lane: extra_lane(bytes[1])?, nonce: challenge },
            15 => Self::LaneBound { lane: extra_lane(bytes[1])? },
            16 => Self::LaneEnd { lane: extra_lane(bytes[1])? },
            _ => return None,
        })
    }
}

/// Writes a message with a nonce.
fn proving(bytes: &mut [u8; MESSAGE_LEN], kind: u8, lane: u8, nonce: &[u8; NONCE_LEN]) {
    bytes[..2].copy_from_slice(&[kind, lane]);
    bytes[8..8 + NONCE_LEN].copy_from_slice(nonce);
}

/// Returns the number of a lane beyond the first; `None` for another number.
fn extra_lane(lane: u8) -> Option<u8> {
    (1..MAX_LANES).contains(&lane).then_some(lane)
}

/// One end of a binding: keys, send counter, replay window.
pub(crate) struct ControlLink {
    /// The other end's index for this end.
    remote: u32,
    sending: AeadKey,
    receiving: AeadKey,
    sent: u64,
    window: ReplayWindow,
    /// Tags of the last [`TAGS`] sealed frames, each at its counter modulo [`TAGS`].
    tags: [[u8; ECHO_LEN]; TAGS],
}

/// The contents of an authentic control frame.
pub(crate) struct OpenedFrame {
    /// The message; `None` if this version does not know its kind.
    pub(crate) message: Option<ControlMessage>,
    /// Whether no later frame was received before.
    pub(crate) newest: bool,
    /// The sender's counter of the frame. Frames overtake each other.
    pub(crate) counter: u64,
}

impl ControlLink {
    pub(crate) fn new(keys: &Keys, remote: u32) -> Self {
        let (sending, receiving) = (AeadKey::new(&keys.sending), AeadKey::new(&keys.receiving));
        Self { remote, sending, receiving, sent: 0, window: ReplayWindow::default(), tags: [[0; ECHO_LEN]; TAGS] }
    }

    /// Seals a message. The counter cannot overflow: at the rate that a relay accepts, this takes longer than any ticket lasts.
    pub(crate) fn seal(&mut self, message: &ControlMessage) -> [u8; CONTROL_LEN] {
        self.seal_bytes(&message.write())
    }

    /// Seals the bytes of a message.
    pub(crate) fn seal_bytes(&mut self, message: &[u8; MESSAGE_LEN]) -> [u8; CONTROL_LEN] {
        let mut frame = [0; CONTROL_LEN];
        let (head, sealed) = frame.split_at_mut(16);
        head[..8].copy_from_slice(&header(CONTROL, self.remote));
        head[8..].copy_from_slice(&self.sent.to_le_bytes());
        let (body, tag) = sealed.split_at_mut(MESSAGE_LEN);
        body.copy_from_slice(message);
        let sealed = self.sending.seal(self.sent, &head[..8], body);
        tag.copy_from_slice(&sealed);
        let address = usize::try_from(self.sent % TAGS as u64).unwrap_or(0);
        self.tags[address] = sealed;
        self.sent += 1;
        frame
    }

    /// Decrypts a frame. A repeated frame is refused (fault C6).
    pub(crate) fn open(&mut self, frame: &[u8; CONTROL_LEN]) -> Option<OpenedFrame> {
        let (head, sealed) = frame.split_at(16);
        let counter = u64::from_le_bytes(*head[8..].first_chunk()?);
        if !self.window.fresh(counter) {
            return None;
        }
        let mut work: [u8; MESSAGE_LEN + TAG] = sealed.try_into().ok()?;
        let plain: &[u8; MESSAGE_LEN] = (&*self.receiving.open(counter, &head[..8], &mut work)?).try_into().ok()?;
        let newest = self.window.mark(counter);
        Some(OpenedFrame { message: ControlMessage::parse(plain), newest, counter })
    }

    /// Returns true if `echo` is the tag of a recently sealed frame, which proves that its sender has seen the frame.
    pub(crate) fn has_sent(&self, echo: &[u8; ECHO_LEN]) -> bool {
        *echo != [0; ECHO_LEN] && self.tags.contains(echo)
    }
}

/// The replay window: the last 64 counters. Control frames are few, so 64 are enough.
#[derive(Default)]
struct ReplayWindow {
    /// One more than the highest counter; 0 before the first frame.
    next: u64,
    /// Bit *n* is set if counter `next - 1 - n` was received.
    seen: u64,
}

impl ReplayWindow {
    fn fresh(&self, counter: u64) -> bool {
        if counter == u64::MAX {
            return false;
        }
        match (counter + 1).cmp(&self.next) {
            std::cmp::Ordering::Greater => true,
            _ => {
                let age = self.next - 1 - counter;
                age < 64 && self.seen & (1 << age) == 0
            }
        }
    }

    /// Marks a fresh counter as received. Returns true if it is the highest so far.
    fn mark(&mut self, counter: u64) -> bool {
        if counter < self.next {
            self.seen |= 1 << (self.next - 1 - counter).min(63);
            return false;
        }
        let ahead = counter + 1 - self.next;
        self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
        self.next = counter + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn links() -> (ControlLink, ControlLink) {
        let keys = |a, b| Keys { sending: Zeroizing::new([a; 32]), receiving: Zeroizing::new([b; 32]) };
        (ControlLink::new(&keys(1, 2), 7), ControlLink::new(&keys(2, 1), 8))
    }

    fn all() -> Vec<ControlMessage> {
        let (id, node) = (0x1234_5670, PublicKey([9; 32]));
        vec![
            ControlMessage::Ping { nonce: u64::MAX },
            ControlMessage::Pong { nonce: 3, seen: "192.0.2.1:8288".parse().unwrap() },
            ControlMessage::Pong { nonce: 3, seen: "[fd00::1]:8288".parse().unwrap() },
            ControlMessage::Open { id, node },
            ControlMessage::Close { node },
            ControlMessage::Opened { id, node },
            ControlMessage::Absent { id, node },
            ControlMessage::Arrived { id, node },
            ControlMessage::Refused { node },
            ControlMessage::Leave(LeaveReason::Away),
            ControlMessage::Leave(LeaveReason::Replaced),
            ControlMessage::Leave(LeaveReason::Expired),
            ControlMessage::Challenge { nonce: [5; NONCE_LEN] },
            ControlMessage::Response { nonce: [6; NONCE_LEN] },
            ControlMessage::Lane { lane: 1 },
            ControlMessage::Prove { lane: 15, nonce: [7; NONCE_LEN] },
            ControlMessage::Proof { lane: 15, nonce: [8; NONCE_LEN] },
            ControlMessage::LaneBound { lane: 1 },
            ControlMessage::LaneEnd { lane: 15 },
        ]
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let (mut a, mut b) = links();
        for message in all() {
            let opened = b.open(&a.seal(&message)).unwrap();
            assert_eq!(opened.message, Some(message));
            assert!(opened.newest);
        }
    }

    #[test]
    fn only_the_lanes_beyond_the_first_have_messages() {
        for kind in 12..=16 {
            let mut bytes = [0; MESSAGE_LEN];
            bytes[0] = kind;
            let mut known = |lane: u8| {
                bytes[1] = lane;
                ControlMessage::parse(&bytes).is_some()
            };
            assert_eq!((0..=u8::MAX).filter(|lane| known(*lane)).collect::<Vec<_>>(), (1..=15).collect::<Vec<_>>());
        }
    }

    #[test]
    fn fault_a14_any_bit_flipped_is_refused_and_costs_nothing() {
        let (mut a, mut b) = links();
        let frame = a.seal(&ControlMessage::Ping { nonce: 1 });
        for bit in 0..CONTROL_LEN * 8 {
            let mut altered = frame;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(b.open(&altered).is_none(), "bit {bit}");
        }
        assert!(b.open(&frame).is_some());
        assert!(a.open(&frame).is_none(), "an end refuses a frame that it sealed itself");
    }

    #[test]
    fn fault_c6_a_control_frame_that_is_repeated_is_refused() {
        let (mut a, mut b) = links();
        let frames: Vec<_> = (0..100).map(|nonce| a.seal(&ControlMessage::Ping { nonce })).collect();
        assert!(b.open(&frames[40]).unwrap().newest);
        assert!(
            !b.open(&frames[39]).unwrap().newest,
            "a late frame that was not seen before is accepted, but not as the newest"
        );
        assert!(b.open(&frames[99]).unwrap().newest);
        for old in [39, 40, 99, 0, 35] {
            assert!(b.open(&frames[old]).is_none(), "{old}");
        }
        assert!(b.open(&frames[36]).is_some(), "the oldest counter inside the window");
    }

    #[test]
    fn the_window_agrees_with_a_set() {
        let mut window = ReplayWindow::default();
        let mut seen = std::collections::BTreeSet::new();
        let (mut random, mut at) = (taut_testkit::Seeded::new(1), 0_u64);
        for _ in 0..20_000 {
            let counter = (at + random.below_u64(90)).saturating_sub(60);
            let highest = seen.last().copied().unwrap_or(0);
            let fresh = !seen.contains(&counter) && highest.saturating_sub(counter) < 64;
            assert_eq!(window.fresh(counter), fresh);
            if fresh {
                assert_eq!(window.mark(counter), seen.is_empty() || counter > highest);
                seen.insert(counter);
                at = at.max(counter);
            }
        }
        assert!(!window.fresh(u64::MAX));
    }
}
