//! The addresses of clients. A client moves only to an address that returned a fresh nonce (RFC 9000, section 8.2; law 16, fault F14).
//!
//! ```text
//! the newest control frame of a client comes from another address
//!   └─▶ challenge to that address, as long as the frame ── response with its nonce, from that address ──▶ the client has moved
//!       meanwhile data and all other answers go to the former address
//! ```
//! A frame proves which client made it, and nothing about its source address. The address may be forged, or an attacker may have
//! copied the frame and sent it from another address. This holds for connections, too: TCP proves that the other end receives, not that it is the client.
//!
//! An address belongs to one client. Another client that proves to be there displaces the former one, which has no address until it proves one again. Its
//! next frame causes a challenge, even if the frame comes from its former address.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Entropy, Time};
use taut_tunnel::Rate;

use super::{Holder, Refused, Reply, Server};
use crate::change::{Change, ClientAddress};
use crate::control::{ControlMessage, NONCE_LEN};
use crate::frame::{CONTROL_LEN, le32};

/// Time limit for a client's response, 10 s: longer than any round trip. A later response is ignored; the next frame causes another challenge.
pub(super) const RESPONSE: Duration = Duration::from_secs(10);
/// Challenges that one client can cause, 5 per second and 20 at once. A client that changes its address needs one or two, and one for each lane beyond the
/// first; 20 at once are enough for a host with 16 lanes. At 72 bytes each, at most 360 bytes per second go to unproven addresses, and as many came from them.
pub(super) const CHALLENGES: Rate = Rate::new(5, 20);

/// A challenge that has no response yet.
pub(super) struct Challenge {
    pub(super) address: ClientAddress,
    pub(super) nonce: [u8; NONCE_LEN],
    pub(super) until: Time,
}

impl Challenge {
    /// Returns true if a response from this address may still come.
    pub(super) fn is_for(&self, address: ClientAddress, now: Time) -> bool {
        self.address == address && now < self.until
    }
}

impl Server {
    /// Takes a control frame: decrypts it, checks its source address, and handles its message.
    pub(super) fn handle_control(
        &mut self,
        address: ClientAddress,
        from: Option<IpAddr>,
        frame: &[u8; CONTROL_LEN],
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let index = le32(frame, 4);
        if self.pendings.contains(index) {
            return self.confirm(address, index, frame, now, entropy);
        }
        let Some(slot) = self.by_index.get(&index).copied() else {
            self.tell_unbound(address, from, index, frame, now);
            return Err(Refused::Unbound);
        };
        let binding = self.binding(slot).ok_or(Refused::NotAuthentic)?;
        let opened = binding.link.open(frame).ok_or(Refused::NotAuthentic)?;
        binding.heard = now;
        let owner = binding.owner();
        if let Some(ControlMessage::Response { nonce }) = opened.message {
            self.handle_response(slot, address, &nonce, now);
        }
        // Only for a frame that is newer than all before it: a late or repeated one says nothing about the client's present address.
        // A lane's frames come from the lane's socket.
        let is_of_lane = opened.message.is_some_and(|message| message.is_of_lane());
        if opened.newest && !is_of_lane && self.address_of(slot) != Some(address) {
            self.challenge(slot, address, now, entropy);
        }
        if !self.rate_limits.may_control(&owner, now) {
            return Err(Refused::ControlRate);
        }
        if let Some(message) = opened.message {
            self.handle_lane_message(slot, address, &message, now, entropy);
            self.handle_message(slot, &message, entropy);
        }
        Ok(())
    }

    /// Sends a challenge to `address`. A client has one outstanding challenge; one for another address replaces it.
    pub(super) fn challenge(&mut self, slot: u32, address: ClientAddress, now: Time, entropy: &mut impl Entropy) {
        let Some(binding) = self.binding(slot) else { return };
        if !binding.challenges.take(&CHALLENGES, now) {
            self.tally.move_rate += 1;
            return;
        }
        let waiting = binding.challenge.as_ref().filter(|challenge| challenge.is_for(address, now));
        let nonce = match waiting {
            // The first challenge may still be in flight, and its response must be accepted.
            Some(challenge) => challenge.nonce,
            None => {
                let mut nonce = [0; NONCE_LEN];
                entropy.fill(&mut nonce);
                binding.challenge = Some(Challenge { address, nonce, until: now + RESPONSE });
                nonce
            }
        };
        let frame = binding.link.seal(&ControlMessage::Challenge { nonce });
        self.tally.challenged += 1;
        self.out.push_back(Reply::new(address, &frame));
    }

    /// Takes a nonce that a client returned. If it matches the challenge and came from the challenged address, the client moves to that address.
    fn handle_response(&mut self, slot: u32, address: ClientAddress, nonce: &[u8; NONCE_LEN], now: Time) {
        let Some(binding) = self.binding(slot) else { return };
        let is_answer = |challenge: &mut Challenge| challenge.is_for(address, now) && challenge.nonce == *nonce;
        if binding.challenge.take_if(is_answer).is_some() {
            self.tally.moved += 1;
            self.put(slot, address);
        }
    }

    /// Sets a client's address to one that it has proven to receive at.
    pub(super) fn put(&mut self, slot: u32, address: ClientAddress) {
        let holder = Holder { slot, lane: 0 };
        let former = self.binding(slot).and_then(|binding| binding.address.replace(address));
        self.vacate(former, holder);
        self.displace(address);
        self.by_address.insert(address, holder);
        self.changes.push_back(Change::Client { slot, address });
    }

    /// Takes an address from the client or the lane that has it, because another one has proven to be there.
    pub(super) fn displace(&mut self, address: ClientAddress) {
        match self.by_address.get(&address).copied() {
            None => {}
            Some(Holder { slot, lane: 0 }) => {
                self.by_address.remove(&address);
                if let Some(displaced) = self.binding(slot).filter(|binding| binding.address == Some(address)) {
                    displaced.address = None;
                }
                self.tally.displaced += 1;
                self.changes.push_back(Change::Displaced { slot });
            }
            Some(Holder { slot, lane }) => {
                self.tally.displaced += 1;
                self.end_lane(slot, lane);
            }
        }
    }

    /// Removes the address of a client's lane, unless another one has it now.
    pub(super) fn vacate(&mut self, address: Option<ClientAddress>, holder: Holder) {
        if let Some(address) = address
            && self.by_address.get(&address) == Some(&holder)
        {
            self.by_address.remove(&address);
        }
    }

    /// Returns the address that a client has proven.
    fn address_of(&mut self, slot: u32) -> Option<ClientAddress> {
        self.binding(slot)?.address
    }
}
