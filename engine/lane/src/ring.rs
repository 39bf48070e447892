//! What lanes of one node hand over to each other: bounded, in order, from each lane to each other one (protocol.md 3.2, 3.3).
//!
//! - **Packets** of the host that another lane seals. The buffer that a superpacket was read into goes over as it is, and an empty one comes back for
//!   it: nothing is copied, and nothing allocated once as many buffers are on their way as there ever will be. A full ring stops the reading of the TUN.
//! - **Marks** between them, see `fork`.
//! - **Datagrams** that came to the wrong socket. They are copied, and dropped when there are too many: the network decides how many there are.
//!
//! With one lane there are no rings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use taut_base::{LaneId, PeerId};
use taut_event::Waker;
use taut_udp::Local;
use taut_wire::ecn::Ecn;
use taut_wire::split::MAX_SUPERPACKET;
use taut_wire::vnet;

/// Packets on their way from one lane to one other: 2 MiB of full superpackets, what a lane seals in a millisecond or two.
const PACKETS: usize = 32;

/// Datagrams on their way from one lane to one other.
const DATAGRAMS: usize = 64;

/// What a superpacket is read into.
pub(crate) type Buffer = Box<[u8]>;

/// An empty buffer.
pub(crate) fn buffer() -> Buffer {
    vec![0; vnet::LEN + MAX_SUPERPACKET].into()
}

/// What is handed over in order.
pub(crate) enum Handed {
    /// A superpacket as it was read, so many bytes long.
    Packet {
        buffer: Buffer,
        length: usize,
        /// The receiver does as if it had read it itself; otherwise it is for the first lane of the peer's session.
        steered: bool,
    },
    /// Everything of this peer that came before is to be passed by the probe of this id.
    Mark { peer: PeerId, barrier: u64 },
}

/// A datagram that carries another lane's index.
pub(crate) struct Stray {
    pub(crate) source: SocketAddr,
    pub(crate) arrival: Arrival,
    pub(crate) datagram: Box<[u8]>,
}

/// How a datagram came, see [`crate::LaneCore::arrived_at`].
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) local: Option<Local>,
    pub(crate) congestion: Ecn,
}

impl Arrival {
    /// Nothing is known of it.
    pub(crate) const UNKNOWN: Self = Self { local: None, congestion: Ecn::NotEct };
}

/// One lane's ends of all rings.
#[derive(Default)]
pub struct Rings {
    /// To each lane, and from each; nothing to oneself.
    to: Vec<Option<Outlet>>,
    from: Vec<Option<Inlet>>,
}

struct Outlet {
    handed: SyncSender<Handed>,
    strays: SyncSender<Stray>,
    /// Buffers that come back.
    empty: Receiver<Buffer>,
    receiver: Waker,
    /// Something was handed over since the receiver was last woken.
    news: bool,
    starved: Arc<AtomicBool>,
}

struct Inlet {
    handed: Receiver<Handed>,
    strays: Receiver<Stray>,
    empty: SyncSender<Buffer>,
    sender: Waker,
    /// The sender waits for room.
    starved: Arc<AtomicBool>,
}

/// The ends of the rings between lanes with these wakers.
pub fn rings(wakers: &[Waker]) -> Vec<Rings> {
    let none =
        |_: &Waker| Rings { to: wakers.iter().map(|_| None).collect(), from: wakers.iter().map(|_| None).collect() };
    let mut all: Vec<Rings> = wakers.iter().map(none).collect();
    for (from, sender) in wakers.iter().enumerate() {
        for (to, receiver) in wakers.iter().enumerate().filter(|(to, _)| *to != from) {
            let (outlet, inlet) = ring(sender, receiver);
            if let Some(place) = all.get_mut(from).and_then(|rings| rings.to.get_mut(to)) {
                *place = Some(outlet);
            }
            if let Some(place) = all.get_mut(to).and_then(|rings| rings.from.get_mut(from)) {
                *place = Some(inlet);
            }
        }
    }
    all
}

fn ring(sender: &Waker, receiver: &Waker) -> (Outlet, Inlet) {
    let (to, handed) = sync_channel(PACKETS);
    let (to_strays, strays) = sync_channel(DATAGRAMS);
    let (back, empty) = sync_channel(PACKETS);
    let starved = Arc::<AtomicBool>::default();
    let outlet = Outlet {
        handed: to,
        strays: to_strays,
        empty,
        receiver: receiver.clone(),
        news: false,
        starved: Arc::clone(&starved),
    };
    (outlet, Inlet { handed, strays, empty: back, sender: sender.clone(), starved })
}

impl Rings {
    /// Hands something over, or gives it back when there is no room: this lane is woken when there is.
    pub(crate) fn hand(&mut self, to: LaneId, handed: Handed) -> Result<(), Handed> {
        // To a lane that is not there, nothing is handed over.
        let Some(Some(outlet)) = self.to.get_mut(usize::from(to.0)) else { return Ok(()) };
        let first = outlet.handed.try_send(handed);
        let tried = match first {
            Err(TrySendError::Full(handed)) => {
                outlet.starved.store(true, Ordering::SeqCst);
                // There may have been room since, and nobody who wakes us.
                outlet.handed.try_send(handed)
            }
            other => other,
        };
        match tried {
            Err(TrySendError::Full(handed)) => Err(handed),
            // Its lane ended, and this one will.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                outlet.news = true;
                Ok(())
            }
        }
    }

    /// An empty buffer in place of one that is handed over to this lane.
    pub(crate) fn empty_buffer(&self, to: LaneId) -> Buffer {
        let outlet = self.to.get(usize::from(to.0)).and_then(Option::as_ref);
        outlet.and_then(|outlet| outlet.empty.try_recv().ok()).unwrap_or_else(buffer)
    }

    /// Hands a copy of a datagram over; false when there is no room or no such lane.
    pub(crate) fn stray(&mut self, to: LaneId, source: SocketAddr, arrival: Arrival, datagram: &[u8]) -> bool {
        let Some(Some(outlet)) = self.to.get_mut(usize::from(to.0)) else { return false };
        let taken = outlet.strays.try_send(Stray { source, arrival, datagram: datagram.into() }).is_ok();
        outlet.news |= taken;
        taken
    }

    /// Wakes whoever was handed something.
    pub(crate) fn wake(&mut self) {
        for outlet in self.to.iter_mut().flatten().filter(|outlet| outlet.news) {
            outlet.news = false;
            outlet.receiver.wake();
        }
    }

    /// How many lanes there are.
    pub(crate) fn lanes(&self) -> usize {
        self.from.len()
    }

    /// The next that a lane handed over, if something waits.
    pub(crate) fn take(&self, from: usize) -> Option<Handed> {
        self.from.get(from)?.as_ref()?.handed.try_recv().ok()
    }

    /// The next datagram that a lane handed over.
    pub(crate) fn take_stray(&self, from: usize) -> Option<Stray> {
        self.from.get(from)?.as_ref()?.strays.try_recv().ok()
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&self, from: usize, buffer: Buffer) {
        if let Some(Some(inlet)) = self.from.get(from) {
            // There is room for all that can be on their way; if there were not, one is allocated anew later.
            let _ = inlet.empty.try_send(buffer);
        }
    }

    /// Wakes a lane that waits for room in its ring to this one.
    pub(crate) fn feed(&self, from: usize) {
        if let Some(Some(inlet)) = self.from.get(from)
            && inlet.starved.swap(false, Ordering::SeqCst)
        {
            inlet.sender.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use taut_event::{Events, Interest, Poller};

    use super::*;

    fn three() -> (Vec<Waker>, Vec<Rings>) {
        let wakers: Vec<Waker> = (0..3).map(|_| Waker::new().unwrap()).collect();
        let rings = rings(&wakers);
        (wakers, rings)
    }

    fn mark(barrier: u64) -> Handed {
        Handed::Mark { peer: PeerId(1), barrier }
    }

    /// Whether it was woken since it was last asked.
    fn woken(waker: &Waker) -> bool {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(waker.as_fd(), 1, Interest::READ).unwrap();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        waker.drain();
        !events.is_empty()
    }

    fn barrier(handed: Option<Handed>) -> Option<u64> {
        match handed? {
            Handed::Mark { barrier, .. } => Some(barrier),
            Handed::Packet { .. } => None,
        }
    }

    #[test]
    fn everything_arrives_once_in_order_where_it_was_sent() {
        let (_, mut all) = three();
        for number in 0..10 {
            assert!(all[1].hand(LaneId(0), mark(number)).is_ok());
            assert!(all[2].hand(LaneId(0), mark(100 + number)).is_ok());
        }
        let from = |place| std::iter::from_fn(|| barrier(all[0].take(place))).collect::<Vec<_>>();
        assert_eq!(from(1), (0..10).collect::<Vec<_>>());
        assert_eq!(from(2), (100..110).collect::<Vec<_>>());
        assert!(from(0).is_empty() && all[1].take(0).is_none() && all[2].take(1).is_none());
    }

    #[test]
    fn a_full_ring_gives_back_and_wakes_when_there_is_room() {
        let (wakers, mut all) = three();
        let taken = (0..1_000).take_while(|number| all[1].hand(LaneId(0), mark(*number)).is_ok()).count();
        assert_eq!(taken, PACKETS);
        all[1].wake();
        assert!(woken(&wakers[0]) && !woken(&wakers[1]) && !woken(&wakers[2]));
        assert_eq!(barrier(all[0].take(1)), Some(0));
        all[0].feed(1);
        all[0].feed(1);
        assert!(woken(&wakers[1]), "there is room");
        assert!(all[1].hand(LaneId(0), mark(99)).is_ok());
        all[0].feed(1);
        assert!(!woken(&wakers[1]), "nobody waits");
    }

    #[test]
    fn buffers_go_round() {
        let (_, mut all) = three();
        let sent = buffer();
        let address = sent.as_ptr();
        let handed = Handed::Packet { buffer: sent, length: 1, steered: false };
        assert!(all[2].hand(LaneId(1), handed).is_ok());
        let Some(Handed::Packet { buffer, .. }) = all[1].take(2) else { unreachable!() };
        all[1].give_back(2, buffer);
        let (first, second) = (all[2].empty_buffer(LaneId(1)), all[2].empty_buffer(LaneId(1)));
        assert!(first.as_ptr() == address && second.as_ptr() != address);
    }

    #[test]
    fn fault_b2_strays_take_no_room_of_packets() {
        let (_, mut all) = three();
        let source = SocketAddr::from(([192, 0, 2, 1], 1));
        let taken = (0..1_000).take_while(|_| all[1].stray(LaneId(0), source, Arrival::UNKNOWN, &[7; 40])).count();
        assert_eq!(taken, DATAGRAMS);
        assert!(!all[1].stray(LaneId(9), source, Arrival::UNKNOWN, &[7; 40]), "nobody there");
        assert!(all[1].hand(LaneId(0), mark(1)).is_ok());
        let stray = all[0].take_stray(1).unwrap();
        assert_eq!((stray.source, &stray.datagram[..]), (source, &[7; 40][..]));
    }
}
