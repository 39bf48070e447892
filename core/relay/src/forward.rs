//! The frequent work of a relay: finds the sender and the receiver of a data frame, and writes the number that the receiver has for the sender into it.
//!
//! Each thread has a [`Forward`] table of its own. The decisions of the [`Server`](crate::Server) reach all tables as [`Change`]s, in the same order. Only the rate
//! limits of the clients are shared ([`Shares`]), because the lanes of one client may arrive at different threads.
//!
//! The low 4 bits of a number name a lane: in a frame to the relay the receiver's lane, at whose address the frame leaves; in a frame from the relay the sender's
//! lane, at whose address it came. A frame for a lane that is not bound goes to the receiver's first lane.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use taut_base::Time;

use crate::change::{Change, ClientAddress};
use crate::frame::{DATA_HEADER, ID_BITS, data, data_header};
use crate::server::RelayLimits;
use crate::shares::{ForwardRate, Shares};

/// A map whose keys are addresses that members have proven, at most 16 per member. No sender chooses many keys, so the hash needs no secret.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// An output of a [`Forward`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardOutput {
    /// The connection of this number ([`ClientAddress::Stream`]) has no bound client any more: the client moved, or its binding ended.
    StreamLeft(u64),
}

/// Why a datagram was not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoForward {
    /// It is no data frame, or its content is no WireGuard message.
    NotWireguard,
    /// Its number leads to no client, or the client has no address now.
    UnknownId,
    /// Its sender has used up its rate limit.
    OverShare,
}

/// Counters of forwarded and refused frames since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounts {
    /// Forwarded datagrams.
    pub datagrams: u64,
    /// Bytes of the forwarded datagrams, frame headers included.
    pub bytes: u64,
    /// [`NoForward::NotWireguard`].
    pub not_wireguard: u64,
    /// [`NoForward::UnknownId`].
    pub unknown_id: u64,
    /// [`NoForward::OverShare`].
    pub over_share: u64,
    /// Data frames from addresses without a bound client.
    pub unbound: u64,
}

/// A lane of a client: the client's slot, and 0 for its first lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLane {
    /// The client's slot.
    pub slot: u32,
    /// The lane.
    pub lane: u8,
}

impl From<u32> for ClientLane {
    /// Returns the first lane of the client in this slot.
    fn from(slot: u32) -> Self {
        Self { slot, lane: 0 }
    }
}

struct Route {
    to: u32,
    to_id: u32,
}

struct ClientEntry {
    /// `None` while it is [displaced](Change::Displaced).
    address: Option<ClientAddress>,
    /// Receivers by the client's own numbers. The client chooses the numbers; in a tree no choice makes a lookup slow (law 15).
    routes: BTreeMap<u32, Route>,
    /// Addresses of the lanes beyond the first, from lane 1 on.
    lanes: Vec<Option<ClientAddress>>,
}

impl ClientEntry {
    /// Returns the address at which a lane receives: its own, or that of the first lane.
    fn address_of(&self, lane: u32) -> Option<ClientAddress> {
        let own = (lane as usize).checked_sub(1).and_then(|place| self.lanes.get(place).copied().flatten());
        own.or(self.address)
    }
}

/// The forwarding table of one thread.
pub struct Forward {
    addresses: Map<ClientAddress, ClientLane>,
    clients: Vec<Option<ClientEntry>>,
    shares: Arc<Shares>,
    counts: ForwardCounts,
    /// Connections that clients left; `None` if they are not reported.
    left: Option<Vec<u64>>,
}

impl Forward {
    /// Returns an empty table of a relay's only thread, which gives each client this rate.
    pub fn new(rate: ForwardRate) -> Self {
        Self::sharing(Arc::new(Shares::new(rate, RelayLimits::DEFAULT.clients)))
    }

    /// Returns an empty table of one of several threads, which count the bytes of clients together.
    pub fn sharing(shares: Arc<Shares>) -> Self {
        Self { addresses: Map::default(), clients: Vec::new(), shares, counts: ForwardCounts::default(), left: None }
    }

    /// Returns a table like [`Self::sharing`] for the thread that owns the connections: [`Self::poll_output`] reports those that clients left.
    pub fn with_streams(shares: Arc<Shares>) -> Self {
        Self { left: Some(Vec::new()), ..Self::sharing(shares) }
    }

    /// Returns the next output. Call it until it returns `None` after [`Self::apply`]. Frames are not among the outputs: [`Self::forward`] rewrites a frame in
    /// place and returns its receiver.
    pub fn poll_output(&mut self) -> Option<ForwardOutput> {
        self.left.as_mut()?.pop().map(ForwardOutput::StreamLeft)
    }

    /// Applies a decision of the server.
    pub fn apply(&mut self, change: &Change) {
        match *change {
            Change::Client { slot, address } => self.put(slot, address),
            Change::Displaced { slot } => {
                let former = self.client(slot).and_then(|client| client.address.take());
                self.vacate(former, slot.into());
            }
            Change::Lane { slot, lane, address } => self.put_lane(ClientLane { slot, lane }, address),
            Change::Gone { slot } => {
                let Some(gone) = self.clients.get_mut(slot as usize).and_then(Option::take) else { return };
                self.vacate(gone.address, slot.into());
                for (lane, address) in (1..).zip(gone.lanes) {
                    self.vacate(address, ClientLane { slot, lane });
                }
            }
            Change::Open { slot, id, to, to_id } => {
                if let Some(client) = self.client(slot) {
                    client.routes.insert(id, Route { to, to_id });
                }
            }
            Change::Close { slot, id } => {
                if let Some(client) = self.client(slot) {
                    client.routes.remove(&id);
                }
            }
        }
    }

    /// Returns the slot of the client at this address.
    pub fn client_at(&self, address: &ClientAddress) -> Option<u32> {
        self.lane_at(address).map(|at| at.slot)
    }

    /// Returns the client at this address, and its lane there.
    pub fn lane_at(&self, address: &ClientAddress) -> Option<ClientLane> {
        self.addresses.get(address).copied()
    }

    /// Takes a frame from a client's lane, writes the number that the receiver has for the sender into it, and returns the receiver's address.
    ///
    /// # Errors
    /// [`NoForward`] is the reason why the frame is dropped. It is counted.
    pub fn forward(
        &mut self,
        from: impl Into<ClientLane>,
        frame: &mut [u8],
        now: Time,
    ) -> Result<ClientAddress, NoForward> {
        let outcome = self.decide(from.into(), frame, now);
        let counter = match outcome {
            Ok((address, to_id)) => {
                frame[..DATA_HEADER].copy_from_slice(&data_header(to_id));
                self.counts.datagrams += 1;
                self.counts.bytes += frame.len() as u64;
                return Ok(address);
            }
            Err(NoForward::NotWireguard) => &mut self.counts.not_wireguard,
            Err(NoForward::UnknownId) => &mut self.counts.unknown_id,
            Err(NoForward::OverShare) => &mut self.counts.over_share,
        };
        *counter += 1;
        outcome.map(|(address, _)| address)
    }

    /// Counts a data frame from an address without a bound client.
    pub fn count_unbound(&mut self) {
        self.counts.unbound += 1;
    }

    /// Counts a datagram that is no frame.
    pub fn count_not_wireguard(&mut self) {
        self.counts.not_wireguard += 1;
    }

    /// Returns the counters.
    pub fn counts(&self) -> ForwardCounts {
        self.counts
    }

    fn decide(&mut self, from: ClientLane, frame: &[u8], now: Time) -> Result<(ClientAddress, u32), NoForward> {
        let (id, _) = data(frame).ok_or(NoForward::NotWireguard)?;
        let (number, to_lane) = (id & ID_BITS, id & !ID_BITS);
        let client = self.client(from.slot).ok_or(NoForward::UnknownId)?;
        let Route { to, to_id } = *client.routes.get(&number).ok_or(NoForward::UnknownId)?;
        if !self.shares.take(from.slot, frame.len() as u64, now) {
            return Err(NoForward::OverShare);
        }
        let address = self.client(to).and_then(|receiver| receiver.address_of(to_lane)).ok_or(NoForward::UnknownId)?;
        Ok((address, to_id | u32::from(from.lane)))
    }

    fn client(&mut self, slot: u32) -> Option<&mut ClientEntry> {
        self.clients.get_mut(slot as usize)?.as_mut()
    }

    fn put(&mut self, slot: u32, address: ClientAddress) {
        let index = slot as usize;
        if index >= self.clients.len() {
            self.clients.resize_with(index + 1, || None);
        }
        let Some(entry) = self.clients.get_mut(index) else { return };
        let client =
            entry.get_or_insert_with(|| ClientEntry { address: None, routes: BTreeMap::new(), lanes: Vec::new() });
        let former = client.address.replace(address);
        self.vacate(former, slot.into());
        self.addresses.insert(address, slot.into());
    }

    fn put_lane(&mut self, at: ClientLane, address: Option<ClientAddress>) {
        let Some(client) = self.client(at.slot) else { return };
        let Some(place) = usize::from(at.lane).checked_sub(1) else { return };
        if place >= client.lanes.len() {
            client.lanes.resize(place + 1, None);
        }
        let former = client.lanes.get_mut(place).and_then(|lane| std::mem::replace(lane, address));
        if client.lanes.iter().all(Option::is_none) {
            client.lanes = Vec::new();
        }
        self.vacate(former, at);
        if let Some(address) = address {
            self.addresses.insert(address, at);
        }
    }

    /// Removes the address of a client's lane, unless another one has it now.
    fn vacate(&mut self, address: Option<ClientAddress>, holder: ClientLane) {
        if let Some(address) = address
            && self.addresses.get(&address) == Some(&holder)
        {
            self.addresses.remove(&address);
            if let (ClientAddress::Stream(number), Some(left)) = (address, &mut self.left) {
                left.push(number);
            }
        }
    }
}

impl fmt::Display for NoForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWireguard => "the frame holds no WireGuard message",
            Self::UnknownId => "the number leads to no client of this relay",
            Self::OverShare => "the sender is over its rate limit",
        })
    }
}

impl std::error::Error for NoForward {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn address(last: u8) -> ClientAddress {
        ClientAddress::Udp(std::net::SocketAddr::from(([192, 0, 2, last], 8288)))
    }

    fn frame(id: u32, size: usize) -> Vec<u8> {
        let mut frame = data_header(id).to_vec();
        frame.extend([4, 0, 0, 0]);
        frame.resize(size, 7);
        frame
    }

    /// Returns a table with clients 0 and 1. Client 0 has the number 0x10 for client 1, which has 0x20 for client 0.
    fn two(share: ForwardRate) -> Forward {
        let mut forward = Forward::new(share);
        for change in [
            Change::Client { slot: 0, address: address(1) },
            Change::Client { slot: 1, address: address(2) },
            Change::Open { slot: 0, id: 0x10, to: 1, to_id: 0x20 },
            Change::Open { slot: 1, id: 0x20, to: 0, to_id: 0x10 },
        ] {
            forward.apply(&change);
        }
        forward
    }

    const WIDE: ForwardRate = ForwardRate::bits_per_second(1_000_000_000);

    #[test]
    fn a_frame_goes_to_the_client_of_its_number() {
        let mut forward = two(WIDE);
        let mut bytes = frame(0x10, 100);
        assert_eq!(forward.forward(0, &mut bytes, Time::ZERO), Ok(address(2)));
        assert_eq!(bytes, frame(0x20, 100), "nothing but the number changes");
        assert_eq!(forward.client_at(&address(1)), Some(0));
        assert_eq!((forward.counts().datagrams, forward.counts().bytes), (1, 100));
    }

    #[test]
    fn fault_f2_nothing_in_a_frame_is_an_address() {
        let mut forward = two(WIDE);
        for id in (0..u32::MAX).step_by(65_521).filter(|id| *id != 0x10) {
            assert_eq!(forward.forward(0, &mut frame(id, 40), Time::ZERO), Err(NoForward::UnknownId));
        }
        for length in 0..40 {
            assert_eq!(forward.forward(0, &mut frame(0x10, 40)[..length], Time::ZERO), Err(NoForward::NotWireguard));
        }
        let mut other = frame(0x10, 100);
        other[8] = 0x45;
        assert_eq!(forward.forward(0, &mut other, Time::ZERO), Err(NoForward::NotWireguard), "an IP packet in clear");
    }

    #[test]
    fn fault_f4_a_number_means_nothing_from_elsewhere() {
        let mut forward = two(WIDE);
        assert_eq!(forward.client_at(&address(9)), None);
        assert_eq!(forward.forward(1, &mut frame(0x10, 100), Time::ZERO), Err(NoForward::UnknownId));
    }

    #[test]
    fn the_low_bits_of_a_number_name_the_receivers_lane_and_then_the_senders() {
        let mut forward = two(WIDE);
        forward.apply(&Change::Lane { slot: 0, lane: 3, address: Some(address(13)) });
        forward.apply(&Change::Lane { slot: 1, lane: 1, address: Some(address(21)) });
        let from = forward.lane_at(&address(13)).unwrap();
        assert_eq!(from, ClientLane { slot: 0, lane: 3 });
        for (to_lane, to) in [(0, address(2)), (1, address(21)), (2, address(2)), (15, address(2))] {
            let mut bytes = frame(0x10 | to_lane, 100);
            assert_eq!(forward.forward(from, &mut bytes, Time::ZERO), Ok(to), "lane {to_lane}");
            assert_eq!(bytes, frame(0x23, 100));
        }
        // The lane moves, and ends.
        forward.apply(&Change::Lane { slot: 1, lane: 1, address: Some(address(22)) });
        assert_eq!(forward.forward(0, &mut frame(0x11, 100), Time::ZERO), Ok(address(22)));
        assert_eq!(forward.client_at(&address(21)), None);
        forward.apply(&Change::Lane { slot: 1, lane: 1, address: None });
        assert_eq!(forward.forward(0, &mut frame(0x11, 100), Time::ZERO), Ok(address(2)));
        // The end of a client ends its lanes.
        forward.apply(&Change::Gone { slot: 0 });
        assert_eq!((forward.client_at(&address(13)), forward.client_at(&address(1))), (None, None));
    }

    #[test]
    fn fault_f6_a_greedy_client_has_its_share_and_the_other_one_its_own() {
        let share = ForwardRate { bytes_per_second: 100_000, burst: 10_000 };
        let mut forward = two(share);
        let (mut greedy, mut modest) = (0, 0);
        for millisecond in 0..1000_u64 {
            let now = Time::ZERO + Duration::from_millis(10_000 + millisecond);
            greedy += (0..20).filter(|_| forward.forward(0, &mut frame(0x10, 1000), now).is_ok()).count();
            if millisecond % 20 == 0 {
                modest += usize::from(forward.forward(1, &mut frame(0x20, 1000), now).is_ok());
            }
        }
        assert!((100..=112).contains(&greedy), "{greedy} of 1000 bytes in a second");
        assert_eq!(modest, 50);
        assert_eq!(forward.counts().over_share, 20_000 - greedy as u64);
    }

    #[test]
    fn a_client_that_moved_is_found_at_its_new_address_only() {
        let mut forward = two(WIDE);
        forward.apply(&Change::Client { slot: 1, address: address(3) });
        assert_eq!((forward.client_at(&address(2)), forward.client_at(&address(3))), (None, Some(1)));
        assert_eq!(forward.forward(0, &mut frame(0x10, 100), Time::ZERO), Ok(address(3)));
        // Another client takes over the address. The former client has no address then, and its end does not remove the entry of the new one.
        forward.apply(&Change::Displaced { slot: 1 });
        forward.apply(&Change::Client { slot: 0, address: address(3) });
        assert_eq!(forward.forward(0, &mut frame(0x10, 100), Time::ZERO), Err(NoForward::UnknownId));
        forward.apply(&Change::Gone { slot: 1 });
        assert_eq!(forward.client_at(&address(3)), Some(0));
        assert_eq!(forward.forward(0, &mut frame(0x10, 100), Time::ZERO), Err(NoForward::UnknownId));
    }

    #[test]
    fn fault_f13_a_connection_that_its_client_left_is_told_once() {
        let mut forward = Forward::with_streams(Arc::new(Shares::new(WIDE, 2)));
        let at = |slot, number| Change::Client { slot, address: ClientAddress::Stream(number) };
        [at(0, 5), at(0, 5), at(1, 6)].iter().for_each(|change| forward.apply(change));
        let left = |forward: &mut Forward| forward.poll_output().map(|ForwardOutput::StreamLeft(number)| number);
        left(&mut forward).into_iter().for_each(|number| assert_eq!(number, 5, "put there again"));
        assert_eq!(forward.client_at(&ClientAddress::Stream(5)), Some(0));
        forward.apply(&Change::Client { slot: 0, address: address(1) });
        forward.apply(&Change::Gone { slot: 1 });
        assert_eq!([left(&mut forward), left(&mut forward), left(&mut forward)], [Some(6), Some(5), None]);
        let mut other = two(WIDE);
        other.apply(&at(0, 5));
        other.apply(&Change::Gone { slot: 0 });
        assert_eq!(other.poll_output(), None, "not asked for");
    }
}
