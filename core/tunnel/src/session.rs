//! A session: the keys of one handshake, with the counter and the replay window that belong to them.

use std::fmt;

use taut_base::{ReceiverIndex, SessionId, Time};
use taut_noise::{AeadKey, TAG};
use taut_wire::wireguard::{self, DATA_HEADER, DATA_OVERHEAD, padded_len};
use zeroize::Zeroizing;

use crate::limits::{REJECT_AFTER_MESSAGES, REKEY_AFTER_MESSAGES};
use crate::window::Window;

/// Which side of the handshake we were; only the initiator starts the next one by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We sent the initiation.
    Initiator,
    /// We answered.
    Responder,
}

/// What a handshake yields: everything a [`Session`] is made of. Moves from the keeper to a lane once (protocol.md 1.7).
pub struct SessionKeys {
    /// Which side we were.
    pub role: Role,
    /// By which the peer names this session to us.
    pub local: ReceiverIndex,
    /// By which we name this session to the peer.
    pub remote: ReceiverIndex,
    /// Key of what we send.
    pub sending: Zeroizing<[u8; 32]>,
    /// Key of what we receive.
    pub receiving: Zeroizing<[u8; 32]>,
}

/// Session keys in use. Counter and window live only here.
pub struct Session {
    /// Our name for it.
    pub id: SessionId,
    /// Which side we were.
    pub role: Role,
    /// By which the peer names it.
    pub local: ReceiverIndex,
    /// When the handshake ended.
    pub born: Time,
    remote: ReceiverIndex,
    sending: AeadKey,
    receiving: AeadKey,
    sent: u64,
    window: Window,
}

impl Session {
    /// Puts the keys of a handshake that ended at `born` to use.
    pub fn new(id: SessionId, keys: &SessionKeys, born: Time) -> Self {
        Self {
            id,
            role: keys.role,
            local: keys.local,
            born,
            remote: keys.remote,
            sending: AeadKey::new(&keys.sending),
            receiving: AeadKey::new(&keys.receiving),
            sent: 0,
            window: Window::new(),
        }
    }

    /// Bytes of the datagram that carries a packet of `packet` bytes on a device of this MTU.
    pub fn sealed_len(packet: usize, mtu: usize) -> usize {
        DATA_OVERHEAD + padded_len(packet, mtu)
    }

    /// Turns `datagram` into a data message. Its packet stands from [`DATA_HEADER`] on, `packet` bytes long; the slice is
    /// [`Self::sealed_len`] long, and everything around the packet is written here: header, zeros, tag.
    ///
    /// # Errors
    /// [`Exhausted`] when the key has sealed all it may; nothing was written then.
    pub fn seal(&mut self, datagram: &mut [u8], packet: usize) -> Result<(), Exhausted> {
        if self.sent >= REJECT_AFTER_MESSAGES {
            return Err(Exhausted);
        }
        let Some((header, body)) = datagram.split_first_chunk_mut::<DATA_HEADER>() else { return Err(Exhausted) };
        let Some((plain, tag)) = body.split_last_chunk_mut::<TAG>() else { return Err(Exhausted) };
        let counter = self.sent;
        self.sent += 1;
        plain[packet..].fill(0);
        *tag = self.sending.seal(counter, &[], plain);
        wireguard::write_data_header(header, self.remote.0, counter);
        Ok(())
    }

    /// Opens a data message in place and yields the padded packet: empty for a keepalive. The window moves only for what is authentic.
    ///
    /// # Errors
    /// When it was seen before, is too old, or was not sealed for this session.
    pub fn open<'a>(&mut self, counter: u64, ciphertext: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(OpenError::CounterAtLimit);
        }
        if !self.window.fresh(counter) {
            return Err(OpenError::Replayed);
        }
        let plain = self.receiving.open(counter, &[], ciphertext).ok_or(OpenError::NotAuthentic)?;
        if !self.window.mark(counter) {
            return Err(OpenError::Replayed);
        }
        Ok(plain)
    }

    /// A name of the session that is the same on both sides: its two indices, the smaller one first.
    pub(crate) fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        (self.local.min(self.remote), self.local.max(self.remote))
    }

    /// Whether so much was sealed that the initiator should make a new session.
    pub(crate) fn wants_rekey_by_messages(&self) -> bool {
        self.sent >= REKEY_AFTER_MESSAGES
    }

    /// Whether nothing may be sealed any more.
    pub(crate) fn exhausted(&self) -> bool {
        self.sent >= REJECT_AFTER_MESSAGES
    }
}

/// The key has sealed all the messages it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session has sent all the messages that its key may seal; a new handshake is needed")
    }
}

impl std::error::Error for Exhausted {}

/// Why a data message did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Its counter was seen before, or is too old to say.
    Replayed,
    /// Its counter is beyond what a key may be used for (fault A12).
    CounterAtLimit,
    /// It was not sealed for this session, or altered on the way.
    NotAuthentic,
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn pair() -> (Session, Session) {
        let keys = |role, local, remote, sending, receiving| SessionKeys {
            role,
            local: ReceiverIndex(local),
            remote: ReceiverIndex(remote),
            sending: Zeroizing::new([sending; 32]),
            receiving: Zeroizing::new([receiving; 32]),
        };
        let here = Session::new(SessionId(1), &keys(Role::Initiator, 16, 32, 1, 2), Time::ZERO);
        let there = Session::new(SessionId(1), &keys(Role::Responder, 32, 16, 2, 1), Time::ZERO);
        (here, there)
    }

    fn sealed(session: &mut Session, packet: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0xee; Session::sealed_len(packet.len(), 1420)];
        datagram[DATA_HEADER..DATA_HEADER + packet.len()].copy_from_slice(packet);
        session.seal(&mut datagram, packet.len()).unwrap();
        datagram
    }

    fn open<'a>(session: &mut Session, datagram: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        let wireguard::Message::Data(data) = wireguard::classify(datagram).unwrap() else { unreachable!() };
        assert_eq!(data.receiver, session.local.0);
        let counter = data.counter;
        session.open(counter, &mut datagram[DATA_HEADER..])
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
            here.sent = above;
            let datagram = sealed(&mut here, b"beyond");
            assert_eq!(datagram[wireguard::data::COUNTER], above.to_le_bytes());
            assert_eq!(&open(&mut there, &mut datagram.clone()).unwrap()[..6], b"beyond");
            assert_eq!(open(&mut there, &mut datagram.clone()), Err(OpenError::Replayed));
            // With the low half of the counter alone, the bytes would be those of an earlier nonce.
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
        here.sent = REJECT_AFTER_MESSAGES - 1;
        let datagram = sealed(&mut here, b"last");
        assert!(open(&mut there, &mut datagram.clone()).is_ok());
        assert_eq!(here.seal(&mut [0; 32], 0), Err(Exhausted));
        assert!(here.exhausted());
        let ciphertext = &mut [0; 16];
        assert_eq!(there.open(REJECT_AFTER_MESSAGES, ciphertext), Err(OpenError::CounterAtLimit));
    }
}
