//! Where a client is, and how it moves: only to a place that returned a fresh nonce (RFC 9000, section 8.2; law 16, fault F14).
//!
//! ```text
//! the newest control frame of a client comes from elsewhere
//!   └─▶ challenge, to there: as long as that frame ── response with its nonce, from there ──▶ the client is there
//!       meanwhile data and all other answers go to where it was
//! ```
//! A frame proves which client made it, and nothing about its source address. The address may be forged, or an adversary may have copied the frame and sent
//! it from elsewhere. A connection is no exception: TCP proves that its other end receives, not that this end is the client.
//!
//! A place belongs to one client. Another client that proves to be there displaces the former one, which has no place until it has proven one again. Its next
//! frame brings a challenge, also from its former place.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Entropy, Time};
use taut_tunnel::Rate;

use super::{Refused, Reply, Server};
use crate::change::{Change, ClientAddress};
use crate::control::{ControlMessage, NONCE_LEN};
use crate::frame::{CONTROL_LEN, le32};

/// Time that a client has for its response, 10 s: longer than any round trip. A later response is ignored; the next frame brings another challenge.
const RESPONSE: Duration = Duration::from_secs(10);
/// Challenges that one client can cause, 5 per second and 20 at once. A client that comes to another address needs one or two; 20 at once are enough for a
/// host that changes networks back and forth. At 72 bytes each, 360 bytes per second go to addresses that proved nothing, and as many came from there.
const CHALLENGES: Rate = Rate::new(5, 20);

/// A challenge without a response so far.
pub(super) struct Challenge {
    address: ClientAddress,
    nonce: [u8; NONCE_LEN],
    until: Time,
}

impl Server {
    /// Takes a control frame: opens it, follows its sender, and does what it says.
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
        // Only a frame that is newer than all before it: a late or repeated one says nothing about where the client is now.
        if opened.newest && self.address_of(slot) != Some(address) {
            self.challenge(slot, address, now, entropy);
        }
        if !self.rate_limits.may_control(&owner, now) {
            return Err(Refused::ControlRate);
        }
        if let Some(message) = opened.message {
            self.handle_message(slot, &message, entropy);
        }
        Ok(())
    }

    /// Asks a client whether it is at `place`. One challenge is outstanding at a time: a later place replaces an earlier one.
    pub(super) fn challenge(&mut self, slot: u32, address: ClientAddress, now: Time, entropy: &mut impl Entropy) {
        let Some(binding) = self.binding(slot) else { return };
        if !binding.challenges.take(&CHALLENGES, now) {
            self.tally.move_rate += 1;
            return;
        }
        let waiting =
            binding.challenge.as_ref().filter(|challenge| challenge.address == address && now < challenge.until);
        let nonce = match waiting {
            // The first challenge may still be on its way, and its answer has to count.
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

    /// Takes a nonce that a client returned. If it is the challenge's, and came from the place that was challenged, the client moves there.
    fn handle_response(&mut self, slot: u32, address: ClientAddress, nonce: &[u8; NONCE_LEN], now: Time) {
        let Some(binding) = self.binding(slot) else { return };
        let is_answer = |challenge: &mut Challenge| {
            challenge.address == address && challenge.nonce == *nonce && now < challenge.until
        };
        if binding.challenge.take_if(is_answer).is_some() {
            self.tally.moved += 1;
            self.put(slot, address);
        }
    }

    /// Puts a client at a place that it has proven to receive at.
    pub(super) fn put(&mut self, slot: u32, address: ClientAddress) {
        let former = self.binding(slot).and_then(|binding| binding.address.replace(address));
        self.vacate(former, slot);
        if let Some(other) = self.by_address.insert(address, slot).filter(|other| *other != slot) {
            if let Some(displaced) = self.binding(other) {
                displaced.address = None;
            }
            self.tally.displaced += 1;
            self.changes.push_back(Change::Displaced { slot: other });
        }
        self.changes.push_back(Change::Client { slot, address });
    }

    /// Forgets that a client was at `place`.
    pub(super) fn vacate(&mut self, address: Option<ClientAddress>, slot: u32) {
        if let Some(address) = address
            && self.by_address.get(&address) == Some(&slot)
        {
            self.by_address.remove(&address);
        }
    }

    /// Returns the place that a client has proven.
    fn address_of(&mut self, slot: u32) -> Option<ClientAddress> {
        self.binding(slot)?.address
    }
}
