//! How a binding begins, moves and ends.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, PrivateKey, PublicKey, Time};
use taut_tunnel::{Bucket, Rate};
use zeroize::Zeroizing;

use super::channels::Side;
use super::moves::Challenge;
use super::{Clocks, Member, Place, Refused, Reply, Server};
use crate::control::{Link, Message, Why};
use crate::forward::Change;
use crate::frame::{BIND_LEN, BOUND_LEN, CONTROL_LEN};
use crate::handshake::{Asking, Welcome};

/// How long a binding waits for its first control frame: some tries of a client on a slow way.
const PENDING: Duration = Duration::from_secs(10);
/// Control frames of one client: a node that comes up opens all its peers at once.
const CONTROL: Rate = Rate::new(200, 4_096);

/// Bound as far as we know; whether the client is there, its first control frame will show.
pub(super) struct Pending {
    member: Member,
    /// Where its `bind` came from. The answer went there and nowhere else, so a frame under its keys proves that the client receives there.
    place: Place,
    link: Link,
    /// By which a repeated `bind` is known.
    ephemeral: [u8; 32],
    /// Our answer, for that.
    bound: [u8; BOUND_LEN],
    expires: Time,
}

/// A client.
pub(super) struct Binding {
    pub(super) member: Member,
    pub(super) link: Link,
    /// Our index for it.
    index: u32,
    /// Where it has proven to be; `None` since another client proved to be there.
    pub(super) place: Option<Place>,
    pub(super) challenge: Option<Challenge>,
    /// Challenges that it may cause.
    pub(super) challenges: Bucket,
    /// When its ticket expires.
    expires: Time,
    pub(super) heard: Time,
    control: Bucket,
    /// Whom it has numbers for.
    pub(super) channels: BTreeMap<PublicKey, Side>,
    pub(super) ids: BTreeMap<u32, PublicKey>,
}

impl Binding {
    /// Whether the client may say one thing more now.
    pub(super) fn may_say(&mut self, now: Time) -> bool {
        self.control.take(&CONTROL, now)
    }
}

impl Server {
    pub(super) fn handle_bind(
        &mut self,
        place: Place,
        bind: &[u8; BIND_LEN],
        clocks: Clocks,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        self.door.judge(place, bind, clocks.now).map_err(|(refused, cookie)| {
            self.out.extend(cookie.map(|cookie| Reply::new(place, &cookie)));
            refused
        })?;
        // The same bytes again from the same place: the answer was lost, or somebody recorded them. The same answer, and nothing else. From another
        // place they have an answer of their own, so that the keys of each prove where the client is.
        let is_repeated = |pending: &&Pending| bind[8..40] == pending.ephemeral && pending.place == place;
        if let Some(pending) = self.pending.values().find(is_repeated) {
            self.out.push_back(Reply::new(place, &pending.bound));
            return Ok(());
        }
        let asking = Asking::read(&self.private, &self.public, bind).map_err(|_| Refused::NotAuthentic)?;
        let terms = asking.ticket.terms();
        if asking.bind_key() != terms.bind {
            return Err(Refused::NotTheirs);
        }
        let signer = asking.ticket.verify(&self.trusted, clocks.wall).map_err(Refused::Ticket)?;
        let member = Member::new(signer, terms.network, terms.node);
        let known = self.by_member.contains_key(&member);
        if (!known && self.by_member.len() >= self.limits.clients) || self.pending.len() >= self.limits.pending {
            return Err(Refused::Full);
        }
        let left = Duration::from_secs(terms.expires).saturating_sub(clocks.wall);
        let mut ephemeral = [0; 32];
        ephemeral.copy_from_slice(&bind[8..40]);
        self.welcome(place, asking, member, ephemeral, clocks.now + left, clocks.now, entropy)
    }

    #[expect(clippy::too_many_arguments, reason = "what was learned of one bind, taken apart")]
    fn welcome(
        &mut self,
        place: Place,
        asking: Asking,
        member: Member,
        ephemeral: [u8; 32],
        expires: Time,
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let index = loop {
            let index = entropy.next_u32();
            if !self.by_index.contains_key(&index) && !self.pending.contains_key(&index) {
                break index;
            }
        };
        let remote = asking.index;
        let welcome = Welcome { seen: seen(Some(place)), patience: self.limits.patience };
        let mut key = Zeroizing::new([0; 32]);
        entropy.fill(&mut *key);
        let (keys, bound) =
            asking.reply(index, &welcome, &PrivateKey::from_bytes(*key)).map_err(|_| Refused::NotAuthentic)?;
        let link = Link::new(&keys, remote);
        self.pending.insert(index, Pending { member, place, link, ephemeral, bound, expires });
        self.pending_order.push_back((now + PENDING, index));
        self.out.push_back(Reply::new(place, &bound));
        Ok(())
    }

    /// The first frame under the keys of a pending binding: it counts from now on.
    pub(super) fn confirm(
        &mut self,
        place: Place,
        index: u32,
        frame: &[u8; CONTROL_LEN],
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let pending = self.pending.get_mut(&index).ok_or(Refused::NotAuthentic)?;
        let opened = pending.link.open(frame).ok_or(Refused::NotAuthentic)?;
        let pending = self.pending.remove(&index).ok_or(Refused::NotAuthentic)?;
        self.pending_order.retain(|(_, waiting)| *waiting != index);
        let proven = pending.place;
        let slot = match self.by_member.get(&pending.member).copied() {
            Some(slot) => {
                self.replace(slot, index, pending, now);
                slot
            }
            None => self.begin(index, pending, now, entropy).ok_or(Refused::Full)?,
        };
        self.by_index.insert(index, slot);
        self.tally.bound += 1;
        // It was sent from elsewhere: its source address may be forged.
        if place != proven {
            self.challenge(slot, place, now, entropy);
        }
        if let Some(message) = opened.message {
            self.handle_message(slot, &message, entropy);
        }
        Ok(())
    }

    /// The member was bound already: this binding takes over everything, numbers included, and the former one is told.
    fn replace(&mut self, slot: u32, index: u32, pending: Pending, now: Time) {
        self.say(slot, &Message::Leave(Why::Replaced));
        self.tally.replaced += 1;
        let Some(binding) = self.binding(slot) else { return };
        let former = std::mem::replace(&mut binding.index, index);
        binding.link = pending.link;
        binding.challenge = None;
        binding.expires = pending.expires;
        binding.heard = now;
        let arrived: Vec<_> =
            binding.channels.iter().filter(|(_, side)| side.live).map(|(key, side)| (*key, side.id)).collect();
        self.by_index.remove(&former);
        self.put(slot, pending.place);
        // It may be a program that was started again, and know nothing of them.
        for (node, id) in arrived {
            self.say(slot, &Message::Arrived { id, node });
        }
    }

    fn begin(&mut self, index: u32, pending: Pending, now: Time, entropy: &mut impl Entropy) -> Option<u32> {
        if self.by_member.len() >= self.limits.clients {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let Pending { member, place, link, expires, .. } = pending;
        *self.slots.get_mut(slot as usize)? = Some(Binding {
            member,
            link,
            index,
            place: None,
            challenge: None,
            challenges: Bucket::default(),
            expires,
            heard: now,
            control: Bucket::default(),
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
        });
        self.by_member.insert(member, slot);
        self.deadlines.insert((expires.min(now + self.limits.patience), slot));
        self.put(slot, place);
        self.tally.clients += 1;
        self.welcome_back(slot, &member, entropy);
        Some(slot)
    }

    /// A binding's deadline has come: it ends, or has another one.
    pub(super) fn look_at(&mut self, slot: u32, now: Time) {
        let patience = self.limits.patience;
        let Some(binding) = self.binding(slot) else { return };
        let (expires, silent) = (binding.expires, binding.heard + patience);
        if expires <= now {
            self.say(slot, &Message::Leave(Why::Expired));
        }
        if expires.min(silent) <= now {
            self.end(slot);
        } else {
            self.deadlines.insert((expires.min(silent), slot));
        }
    }

    /// A binding ends. Those who have channels to the client are told.
    pub(super) fn end(&mut self, slot: u32) {
        let Some(binding) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.by_member.remove(&binding.member);
        self.by_index.remove(&binding.index);
        self.vacate(binding.place, slot);
        self.deadlines.retain(|(_, other)| *other != slot);
        for (node, side) in &binding.channels {
            self.hang_up(&binding.member, *node, side, slot);
        }
        self.changes.push_back(Change::Gone { slot });
        self.free.push(slot);
        self.tally.clients -= 1;
        self.tally.ended += 1;
    }
}

/// A client that comes by a connection is told no address: the relay may be behind a front that hides it. Nor is one whose place is not known.
fn seen(place: Option<Place>) -> SocketAddr {
    match place {
        Some(Place::Udp(source)) => source,
        Some(Place::Stream(_)) | None => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    }
}

impl Server {
    /// What a client at `place` is told of where it is.
    pub(super) fn seen_of(&mut self, slot: u32) -> SocketAddr {
        seen(self.binding(slot).and_then(|binding| binding.place))
    }
}
