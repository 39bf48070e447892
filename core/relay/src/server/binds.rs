//! The steps from a `bind` to a binding: checks, answer, confirmation.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Entropy, PrivateKey, Time};
use zeroize::Zeroizing;

use super::pendings::{BindRequest, NoRoom, PendingBind};
use super::{Claim, Member, Refused, Reply, Server, ServerClocks, seen};
use crate::change::ClientAddress;
use crate::control::{ControlLink, MAX_LANES};
use crate::frame::{BIND_LEN, CONTROL_LEN};
use crate::handshake::{ReadBind, Welcome};

impl Server {
    /// Takes a `bind`. Answers with `bound` if its sender may bind, with a cookie if the sender has to prove its address first, and otherwise not at all.
    pub(super) fn handle_bind(
        &mut self,
        address: ClientAddress,
        from: Option<IpAddr>,
        bind: &[u8; BIND_LEN],
        clocks: ServerClocks,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let judged = self.rate_limits.check_bind(address, from, bind, clocks.now);
        let is_proven = judged.map_err(|(refused, cookie)| {
            self.out.extend(cookie.map(|cookie| Reply::new(address, &cookie)));
            refused
        })?;
        let mut ephemeral = [0; 32];
        ephemeral.copy_from_slice(&bind[8..40]);
        // The same bytes from the same address get the same answer: the first answer was lost, or the bytes were recorded. From another address they get
        // another answer, so that the keys of each answer prove at which address the client receives.
        if let Some(bound) = self.pendings.repeated(ephemeral, address) {
            self.out.push_back(Reply::new(address, bound));
            return Ok(());
        }
        let read = ReadBind::read(&self.private, &self.public, bind).map_err(|_| Refused::NotAuthentic)?;
        let claim = self.claim(&read, clocks)?;
        if !self.has_room_for_client(&claim) {
            return Err(Refused::Full);
        }
        let request = BindRequest { claim, address, is_proven, ephemeral };
        match self.pendings.room(&request) {
            Ok(gives_way) => drop(gives_way.and_then(|index| self.pendings.remove(index))),
            Err(NoRoom::Stale) => return Err(Refused::Stale),
            // A sender that proves its address evicts one that did not prove its own.
            Err(NoRoom::Member) if !is_proven => {
                let (refused, cookie) = self.rate_limits.ask(address, bind, clocks.now);
                self.out.extend(cookie.map(|cookie| Reply::new(address, &cookie)));
                return Err(refused);
            }
            Err(NoRoom::Member) => return Err(Refused::MemberBinds),
            Err(NoRoom::Network) => return Err(Refused::Full),
        }
        self.welcome(request, read, clocks.now, entropy)
    }

    /// Returns the contents of a bind, if its ticket is valid and no later bind of the member is known.
    fn claim(&mut self, read: &ReadBind, clocks: ServerClocks) -> Result<Claim, Refused> {
        let terms = read.ticket.terms();
        #[cfg(test)]
        if self.is_release_0_1_0 && terms.id.is_some() {
            return Err(Refused::NotAuthentic);
        }
        if read.bind_key() != terms.bind {
            return Err(Refused::NotTheirs);
        }
        let signer = read.ticket.verify(&self.trusted, clocks.wall).map_err(Refused::Ticket)?;
        let member = Member::new(signer, terms.network, terms.node);
        let left = Duration::from_secs(terms.expires).saturating_sub(clocks.wall);
        let (signed, expires) = (terms.not_before, clocks.now + left);
        let claim = Claim { member, id: terms.id, stamp: read.stamp, signed, expires };
        if self.is_cut_off(&claim, clocks) {
            return Err(Refused::CutOff);
        }
        if self.bound_to(&claim).into_iter().flatten().any(|slot| self.is_older(slot, &claim)) {
            return Err(Refused::Stale);
        }
        Ok(claim)
    }

    /// Answers a bind, and stores it until it is confirmed.
    fn welcome(
        &mut self,
        request: BindRequest,
        read: ReadBind,
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let index = loop {
            let index = entropy.next_u32();
            if !self.by_index.contains_key(&index) && !self.pendings.contains(index) {
                break index;
            }
        };
        let remote = read.index;
        let BindRequest { address, is_proven, ephemeral, claim } = request;
        let lanes = if self.has_lanes() { MAX_LANES } else { 0 };
        let welcome =
            Welcome { seen: seen(Some(address)), patience: self.limits.patience, tickets: self.tickets(), lanes };
        let mut key = Zeroizing::new([0; 32]);
        entropy.fill(&mut *key);
        let (keys, bound) =
            read.reply(index, &welcome, &PrivateKey::from_bytes(*key)).map_err(|_| Refused::NotAuthentic)?;
        let link = ControlLink::new(&keys, remote);
        self.pendings.insert(index, PendingBind { claim, address, is_proven, link, ephemeral, bound }, now);
        self.out.push_back(Reply::new(address, &bound));
        Ok(())
    }

    /// Takes the first frame under the keys of a pending bind, which turns it into a binding. The member's other pending binds end.
    pub(super) fn confirm(
        &mut self,
        address: ClientAddress,
        index: u32,
        frame: &[u8; CONTROL_LEN],
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let pending = self.pendings.get_mut(index).ok_or(Refused::NotAuthentic)?;
        let opened = pending.link.open(frame).ok_or(Refused::NotAuthentic)?;
        let pending = self.pendings.remove(index).ok_or(Refused::NotAuthentic)?;
        let (proven, owner) = (pending.address, pending.claim.owner());
        self.pendings.remove_all(&owner);
        if !self.rate_limits.may_bind(&owner, now) {
            return Err(Refused::BindRate);
        }
        // A later bind may have been confirmed since this one was answered.
        if self.bound_to(&pending.claim).into_iter().flatten().any(|slot| self.is_older(slot, &pending.claim)) {
            return Err(Refused::Stale);
        }
        let slot = self.make_binding(index, pending, now, entropy).ok_or(Refused::Full)?;
        self.tally.bound += 1;
        // The frame came from another address than the bind, and its source address may be forged.
        if address != proven && !opened.message.is_some_and(|message| message.is_of_lane()) {
            self.challenge(slot, address, now, entropy);
        }
        if let Some(message) = opened.message {
            self.handle_lane_message(slot, address, &message, now, entropy);
            self.handle_message(slot, &message, entropy);
        }
        Ok(())
    }
}
