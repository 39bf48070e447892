//! Congestion marks for the flows that keep a queue of the lane long.
//!
//! A lane has two queues in front of it that belong to the kernel: the receive queue of its socket, and the queue of the TUN device. TCP fills both up to its window, which is megabytes, and every
//! packet of another flow waits behind them. This machine tells such a flow to slow down: its packets get the mark "congestion experienced" (RFC 3168), the receiver echoes the mark, and the
//! sender's window shrinks. Nothing is dropped, and no packet is moved in front of another.
//!
//! The idea is CoDel's (RFC 8289): a queue that was short at one look is a burst and does no harm; a queue that was long at every look for a while stands, and only adds delay.
//!
//! ```text
//!              a look finds STANDING_BYTES               every look does, for `patience`
//!    short ──────────────────────────────▶ counts bytes ────────────────────────────────▶ marks heavy flows
//!      ▲                                     │      ▲                                           │ the next look
//!      │                                     │      └───────────────────────────────────────────┘
//!      └── a look finds less, or no look ────┘
//!          came for STALE
//! ```
//!
//! A packet is marked (law 15) only if its flow *and* its peer have at least the mean of what all heavy flows and peers sent while the queue was long. A peer that floods the queue, with one
//! flow or with thousands, raises its own share and the mean. Who has less than [`HEAVY_BYTES`] per [`EPOCH`] is not heavy: it is never marked, and lowers no mean.
//!
//! Over a long round trip, TCP needs a queue to keep its speed after it slowed down. So peers beyond [`LONGEST_ROUND_TRIP`] are not marked, nor those whose round trip is unknown.

use std::time::Duration;

use taut_base::{PeerId, Time};
use taut_tun::flow;

/// Bytes that wait in a queue that counts as long, 128 KiB: two superpackets, 0.1 ms at 10 Gbit/s. A pipeline of two lanes and two programs that share two cores needs about that much to keep all of
/// them busy.
const STANDING_BYTES: usize = 128 * 1024;
/// Time for which a queue is long at every look before flows are marked, and before they are marked again, 1 ms: several round trips between hosts of one site. Below that, the wake-ups of four programs
/// make queues longer than TCP does.
const PATIENCE: Duration = Duration::from_millis(1);
/// Share of the time, in thousandths, for which a lane may wait for a core without any effect. Where two lanes and the programs at both ends share two cores, each waits for a fifth of its time.
const USUAL_WAIT: u16 = 250;
/// Further such time for a lane that never has a core when it wants one, 20 ms; a part of it for a lane that waits more than [`USUAL_WAIT`]. Programs that share cores take turns of milliseconds, and each
/// turn needs something to work on: with a queue of 4 ms, one stream beside two busy programs on two cores, where a lane waits for half of its time, had three quarters of its speed.
const PATIENCE_WITHOUT_CORE: Duration = Duration::from_millis(20);
/// Longest round trip of peers whose flows are marked, 2 ms: a host on the same site. TCP slows down by 30 % (RFC 9438). Without a queue of half a round trip, that costs throughput until the window
/// has grown again, which takes longer the longer the round trip is.
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(2);
/// Time between two looks that counts at most, 0.25 ms: about what a lane needs for the packets of one look. Packets that came while the lane had no core are a burst.
const LONGEST_STEP: Duration = Duration::from_micros(250);
/// Time without a look, 4 ms, after which a long queue is a new one. A busy lane looks every 0.1 ms; a lane that waits for its core, or for a full socket, is back within a tick of the scheduler.
const STALE: Duration = Duration::from_millis(4);
/// Time after which shares are counted from zero, 16 ms: a flow that ended does not count any more.
const EPOCH: Duration = Duration::from_millis(16);
/// Bytes of a heavy flow per epoch, 64 KiB: 32 Mbit/s. A flow with less does not make a queue stand.
const HEAVY_BYTES: u64 = 64 * 1024;
/// Slots for the shares of peers and flows. Two in one slot share their fate, which is harmless: the heavier of them is marked anyway.
const PEERS: usize = 64;
const FLOWS: usize = 256;

/// Finds out whether one queue stands, and which packets to mark.
pub(crate) struct QueueMarks {
    /// Time for which every look found a long queue, and no packet was marked; `None` while the queue is short.
    stood: Option<Duration>,
    /// Time for which every look has to find the queue long before flows are marked.
    patience: Duration,
    /// True if a packet was marked since the last look.
    marked: bool,
    /// The last look.
    looked: Time,
    /// Bytes that were taken from the queue since it was last empty, as far as the caller counts them one by one.
    taken: usize,
    epoch: Time,
    peers: Shares<PEERS>,
    flows: Shares<FLOWS>,
}

impl QueueMarks {
    pub(crate) fn new() -> Self {
        Self {
            stood: None,
            patience: PATIENCE,
            marked: false,
            looked: Time::ZERO,
            taken: 0,
            epoch: Time::ZERO,
            peers: Shares::new(),
            flows: Shares::new(),
        }
    }

    /// Notes the part of the time that the lane wanted a core and had none, in thousandths.
    pub(crate) fn set_waited(&mut self, thousandths: u16) {
        let beyond = u32::from(thousandths.min(1000).saturating_sub(USUAL_WAIT));
        self.patience = PATIENCE + PATIENCE_WITHOUT_CORE * beyond / u32::from(1000 - USUAL_WAIT);
    }

    /// Notes a look at a queue in which `bytes` waited, or more than that if the look did not reach the queue's end.
    pub(crate) fn looked(&mut self, bytes: usize, more: bool, now: Time) {
        if bytes < STANDING_BYTES && !more {
            self.stood = None;
            return;
        }
        let pause = now.since(self.looked);
        self.looked = now;
        let stood = self.stood.filter(|_| pause <= STALE);
        if stood.is_none() || now.since(self.epoch) > EPOCH {
            self.forget_shares(now);
        }
        // Marked flows get the time to slow down. A window that is cut at once again becomes too short.
        let goes_on = !std::mem::take(&mut self.marked);
        self.stood = Some(stood.filter(|_| goes_on).map_or(Duration::ZERO, |stood| stood + pause.min(LONGEST_STEP)));
    }

    /// Notes that a packet of `bytes` was taken from a queue that shows one packet at a time. `clock` is asked only if the queue may be long.
    pub(crate) fn took(&mut self, bytes: usize, clock: impl FnOnce() -> Time) {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken >= STANDING_BYTES {
            self.looked(self.taken, false, clock());
        }
    }

    /// Notes that the queue is empty.
    pub(crate) fn emptied(&mut self) {
        (self.taken, self.stood) = (0, None);
    }

    /// Returns true if the queue is long, so that [`Self::marks`] is to be asked about each packet.
    pub(crate) fn is_long(&self) -> bool {
        self.stood.is_some()
    }

    /// Counts a packet of a peer with this round trip. Returns true if it is to be marked.
    pub(crate) fn marks(&mut self, peer: PeerId, round_trip: Option<Duration>, packet: &[u8]) -> bool {
        let Some(stood) = self.stood else { return false };
        let bytes = packet.len() as u64;
        let peer = self.peers.add(peer.0 as usize % PEERS, bytes);
        let flow = self.flows.add(usize::from(flow(packet)) % FLOWS, bytes);
        let marks = stood >= self.patience
            && round_trip.is_some_and(|round_trip| round_trip <= LONGEST_ROUND_TRIP)
            && flow >= HEAVY_BYTES
            && self.flows.has_mean(flow)
            && self.peers.has_mean(peer);
        self.marked |= marks;
        marks
    }

    fn forget_shares(&mut self, now: Time) {
        self.epoch = now;
        self.peers = Shares::new();
        self.flows = Shares::new();
    }
}

/// The bytes of each party, in a fixed number of slots.
struct Shares<const SLOTS: usize> {
    bytes: [u64; SLOTS],
    /// Slots of at least [`HEAVY_BYTES`], and their bytes.
    heavy: u64,
    total: u64,
}

impl<const SLOTS: usize> Shares<SLOTS> {
    const fn new() -> Self {
        Self { bytes: [0; SLOTS], heavy: 0, total: 0 }
    }

    /// Adds to a slot and returns its bytes.
    fn add(&mut self, slot: usize, bytes: u64) -> u64 {
        let Some(own) = self.bytes.get_mut(slot) else { return 0 };
        let was_heavy = *own >= HEAVY_BYTES;
        *own += bytes;
        if was_heavy {
            self.total += bytes;
        } else if *own >= HEAVY_BYTES {
            self.heavy += 1;
            self.total += *own;
        }
        *own
    }

    /// Returns true if a party with these bytes has at least the mean of the heavy ones.
    fn has_mean(&self, bytes: u64) -> bool {
        bytes.saturating_mul(self.heavy) >= self.total
    }
}

#[cfg(test)]
mod tests;
