//! The rings between the lanes of one node: bounded, in order, from each lane to each other lane (protocol.md 3.2, 3.3).
//!
//! - **Packets** of the host that another lane seals. The buffer that a superpacket was read into changes hands as it is, and an empty one comes back for
//!   it: no payload is copied, and nothing is allocated once enough buffers are in circulation. A full ring stops the reading of the TUN. The ring is locked
//!   for each superpacket that enters, and once for all that the receiving lane then takes.
//! - **Marks** among them, see `selector`.
//! - **Strays**: datagrams that came to the wrong lane's socket. They are copied, and dropped when there are too many, because the network decides how many
//!   there are.
//!
//! A node with one lane has no rings.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TrySendError;

use taut_base::LaneId;
use taut_event::{Receiver, Sender, Waker, channel};
use taut_udp::Local;
use taut_wire::ecn::Ecn;
use taut_wire::split::MAX_SUPERPACKET;
use taut_wire::vnet;

use crate::selector::Mark;

/// Packets on their way from one lane to another at most, 32: 2 MiB of full superpackets, which a lane seals in one or two milliseconds.
const PACKETS: usize = 32;

/// Strays on their way from one lane to another at most, 64.
const STRAYS: usize = 64;

/// The buffer that a superpacket is read into.
pub(crate) type PacketBuffer = Box<[u8]>;

/// Returns an empty buffer.
pub(crate) fn packet_buffer() -> PacketBuffer {
    vec![0; vnet::LEN + MAX_SUPERPACKET].into()
}

/// What is handed off in order.
pub(crate) enum RingItem {
    /// A superpacket as it was read.
    Packet {
        buffer: PacketBuffer,
        /// Bytes of the superpacket in the buffer.
        length: usize,
        /// True if the receiver treats it as if it had read it itself, because its flow belongs there. False if the receiver is the first lane and seals it.
        steered: bool,
    },
    /// A mark behind the packets before it.
    Mark(Mark),
}

/// A datagram with another lane's receiver index.
pub(crate) struct Stray {
    pub(crate) source: SocketAddr,
    pub(crate) meta: DatagramMeta,
    pub(crate) datagram: Box<[u8]>,
}

/// What the socket told about a datagram, see [`LaneCore::arrived_at`](crate::LaneCore::arrived_at).
#[derive(Clone, Copy)]
pub(crate) struct DatagramMeta {
    pub(crate) local: Option<Local>,
    pub(crate) congestion: Ecn,
}

impl DatagramMeta {
    /// The socket told nothing.
    pub(crate) const UNKNOWN: Self = Self { local: None, congestion: Ecn::NotEct };
}

/// One lane's ends of all rings.
#[derive(Default)]
pub struct Rings {
    /// The rings to each lane; `None` at this lane's own place.
    to: Vec<Option<RingSender>>,
    /// The rings from each lane; `None` at this lane's own place.
    from: Vec<Option<RingReceiver>>,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").field("lanes", &self.lanes()).finish_non_exhaustive()
    }
}

struct RingSender {
    items: Sender<RingItem>,
    strays: Sender<Stray>,
    /// Buffers that come back.
    empty: Receiver<PacketBuffer>,
    /// Wakes the receiving lane.
    receiver: Waker,
    /// True if the receiver was not woken since something was handed off.
    needs_wake: bool,
    /// True while this lane waits for room.
    starved: Arc<AtomicBool>,
}

struct RingReceiver {
    items: Receiver<RingItem>,
    strays: Receiver<Stray>,
    empty: Sender<PacketBuffer>,
    /// Wakes the sending lane.
    sender: Waker,
    /// True while the sending lane waits for room.
    starved: Arc<AtomicBool>,
}

/// Makes the rings between the lanes with these wakers; returns the ends of each lane.
pub fn rings(wakers: &[Waker]) -> Vec<Rings> {
    let none =
        |_: &Waker| Rings { to: wakers.iter().map(|_| None).collect(), from: wakers.iter().map(|_| None).collect() };
    let mut all: Vec<Rings> = wakers.iter().map(none).collect();
    for (from, sender) in wakers.iter().enumerate() {
        for (to, receiver) in wakers.iter().enumerate().filter(|(to, _)| *to != from) {
            let (sending, receiving) = ring(sender, receiver);
            if let Some(place) = all.get_mut(from).and_then(|rings| rings.to.get_mut(to)) {
                *place = Some(sending);
            }
            if let Some(place) = all.get_mut(to).and_then(|rings| rings.from.get_mut(from)) {
                *place = Some(receiving);
            }
        }
    }
    all
}

fn ring(sender: &Waker, receiver: &Waker) -> (RingSender, RingReceiver) {
    let (to_items, items) = channel(PACKETS);
    let (to_strays, strays) = channel(STRAYS);
    let (back, empty) = channel(PACKETS);
    let starved = Arc::<AtomicBool>::default();
    let sending = RingSender {
        items: to_items,
        strays: to_strays,
        empty,
        receiver: receiver.clone(),
        needs_wake: false,
        starved: Arc::clone(&starved),
    };
    (sending, RingReceiver { items, strays, empty: back, sender: sender.clone(), starved })
}

impl Rings {
    /// Hands an item off to a lane, or returns it as an error when the ring is full; this lane is then woken when there is room.
    pub(crate) fn hand_off(&mut self, to: LaneId, item: RingItem) -> Result<(), RingItem> {
        // An item for a lane that does not exist is dropped.
        let Some(Some(ring)) = self.to.get_mut(usize::from(to.0)) else { return Ok(()) };
        let first = ring.items.try_send(item);
        let tried = match first {
            Err(TrySendError::Full(item)) => {
                ring.starved.store(true, Ordering::SeqCst);
                // The receiver may have made room before it could see that this lane waits, and then it does not wake this lane.
                ring.items.try_send(item)
            }
            other => other,
        };
        match tried {
            Err(TrySendError::Full(item)) => Err(item),
            // Disconnected: the receiving lane has ended, and this one will.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                ring.needs_wake = true;
                Ok(())
            }
        }
    }

    /// Returns an empty buffer in place of one that is handed off to this lane.
    pub(crate) fn empty_buffer(&self, to: LaneId) -> PacketBuffer {
        let ring = self.to.get(usize::from(to.0)).and_then(Option::as_ref);
        ring.and_then(|ring| ring.empty.try_recv().ok()).unwrap_or_else(packet_buffer)
    }

    /// Hands off a copy of a datagram. Returns false if there is no room or no such lane.
    pub(crate) fn hand_off_stray(
        &mut self,
        to: LaneId,
        source: SocketAddr,
        meta: DatagramMeta,
        datagram: &[u8],
    ) -> bool {
        let Some(Some(ring)) = self.to.get_mut(usize::from(to.0)) else { return false };
        let taken = ring.strays.try_send(Stray { source, meta, datagram: datagram.into() }).is_ok();
        ring.needs_wake |= taken;
        taken
    }

    /// Wakes the lanes to which something was handed off.
    pub(crate) fn wake(&mut self) {
        for ring in self.to.iter_mut().flatten().filter(|ring| ring.needs_wake) {
            ring.needs_wake = false;
            ring.receiver.wake();
        }
    }

    /// Returns the number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.from.len()
    }

    /// Takes the next item that lane `from` handed off.
    pub(crate) fn take(&self, from: usize) -> Option<RingItem> {
        self.from.get(from)?.as_ref()?.items.try_recv().ok()
    }

    /// Takes the next stray that lane `from` handed off.
    pub(crate) fn take_stray(&self, from: usize) -> Option<Stray> {
        self.from.get(from)?.as_ref()?.strays.try_recv().ok()
    }

    /// Gives a buffer back to the lane that handed it off.
    pub(crate) fn give_back(&self, from: usize, buffer: PacketBuffer) {
        if let Some(Some(ring)) = self.from.get(from) {
            // There is room for as many buffers as can be on their way. A buffer that found none would be allocated again later.
            let _ = ring.empty.try_send(buffer);
        }
    }

    /// Wakes lane `from` if it waits for room in its ring to this lane.
    pub(crate) fn wake_starved(&self, from: usize) {
        if let Some(Some(ring)) = self.from.get(from)
            && ring.starved.swap(false, Ordering::SeqCst)
        {
            ring.sender.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use taut_base::PeerId;
    use taut_event::{Events, Interest, Poller};

    use super::*;

    fn three() -> (Vec<Waker>, Vec<Rings>) {
        let wakers: Vec<Waker> = (0..3).map(|_| Waker::new().unwrap()).collect();
        let rings = rings(&wakers);
        (wakers, rings)
    }

    fn mark(barrier: u64) -> RingItem {
        RingItem::Mark(Mark { peer: PeerId(1), barrier })
    }

    /// Returns true if it was woken since the last call.
    fn woken(waker: &Waker) -> bool {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(waker.as_fd(), 1, Interest::READ).unwrap();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        waker.drain();
        !events.is_empty()
    }

    fn barrier(item: Option<RingItem>) -> Option<u64> {
        match item? {
            RingItem::Mark(mark) => Some(mark.barrier),
            RingItem::Packet { .. } => None,
        }
    }

    #[test]
    fn each_item_arrives_once_in_order_at_the_lane_it_was_handed_off_to() {
        let (_, mut all) = three();
        for number in 0..10 {
            assert!(all[1].hand_off(LaneId(0), mark(number)).is_ok());
            assert!(all[2].hand_off(LaneId(0), mark(100 + number)).is_ok());
        }
        let from = |place| std::iter::from_fn(|| barrier(all[0].take(place))).collect::<Vec<_>>();
        assert_eq!(from(1), (0..10).collect::<Vec<_>>());
        assert_eq!(from(2), (100..110).collect::<Vec<_>>());
        assert!(from(0).is_empty() && all[1].take(0).is_none() && all[2].take(1).is_none());
    }

    #[test]
    fn a_full_ring_refuses_an_item_and_wakes_its_sender_when_there_is_room() {
        let (wakers, mut all) = three();
        let taken = (0..1_000).take_while(|number| all[1].hand_off(LaneId(0), mark(*number)).is_ok()).count();
        assert_eq!(taken, PACKETS);
        all[1].wake();
        assert!(woken(&wakers[0]) && !woken(&wakers[1]) && !woken(&wakers[2]));
        assert_eq!(barrier(all[0].take(1)), Some(0));
        all[0].wake_starved(1);
        all[0].wake_starved(1);
        assert!(woken(&wakers[1]), "there is room");
        assert!(all[1].hand_off(LaneId(0), mark(99)).is_ok());
        all[0].wake_starved(1);
        assert!(!woken(&wakers[1]), "no lane waits");
    }

    #[test]
    fn buffers_come_back() {
        let (_, mut all) = three();
        let sent = packet_buffer();
        let address = sent.as_ptr();
        let item = RingItem::Packet { buffer: sent, length: 1, steered: false };
        assert!(all[2].hand_off(LaneId(1), item).is_ok());
        let Some(RingItem::Packet { buffer, .. }) = all[1].take(2) else { unreachable!() };
        all[1].give_back(2, buffer);
        let (first, second) = (all[2].empty_buffer(LaneId(1)), all[2].empty_buffer(LaneId(1)));
        assert!(first.as_ptr() == address && second.as_ptr() != address);
    }

    #[test]
    fn fault_b2_strays_take_no_room_of_packets() {
        let (_, mut all) = three();
        let source = SocketAddr::from(([192, 0, 2, 1], 1));
        let taken = (0..1_000)
            .take_while(|_| all[1].hand_off_stray(LaneId(0), source, DatagramMeta::UNKNOWN, &[7; 40]))
            .count();
        assert_eq!(taken, STRAYS);
        assert!(!all[1].hand_off_stray(LaneId(9), source, DatagramMeta::UNKNOWN, &[7; 40]), "no such lane");
        assert!(all[1].hand_off(LaneId(0), mark(1)).is_ok());
        let stray = all[0].take_stray(1).unwrap();
        assert_eq!((stray.source, &stray.datagram[..]), (source, &[7; 40][..]));
    }
}
