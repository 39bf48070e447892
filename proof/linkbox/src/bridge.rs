//! The main loop: two packet sockets, joined by two directions.
//!
//! ```text
//! wait for frames, a due frame, or a signal ──▶ take frames in, each at the time that it reached its interface ──▶ send what is due ──▶ pause ──▶ wait
//! ```
//! The kernel stamps frames on arrival, so the time at which the program reads them does not matter, if it is before they are due.
//! The program has one thread, so the load of one core is the load of the program.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Events, Interest, Poller, Signal, Signals, boot_time};
use taut_packet::{FrameBatch, MAX_FRAMES, PacketConfig, PacketSocket, VIRTIO_HEADER};

use crate::arguments::Arguments;
use crate::direction::{Direction, Due};
use crate::load::Load;
use crate::packet::{Packet, Pool};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of the longest superpacket: an IP packet of 64 KiB with its headers.
const SUPERPACKET: usize = VIRTIO_HEADER + ETHERNET + 65_535;
/// Bytes of the receive buffer, 64 MiB: room for the frames that arrive at 10 Gbit/s while another program has the core for ten milliseconds.
const RECEIVE_BUFFER: usize = 64 << 20;
/// Maximum number of receive calls per end before due frames are sent, 8: a flood of arrivals does not delay due frames for longer.
const RECEIVE_CALLS: usize = 8;
/// Shortest time between two wake-ups while frames move, 20 µs. At 100,000 frames a second each way this takes two thirds of a core instead of five sixths,
/// and half of the frames leave within 20 µs of their time instead of 14.
const GRAIN: Duration = Duration::from_micros(20);
/// Time between two readings of the kernel's drop counters.
const ASK: Duration = Duration::from_secs(1);

/// Token of the signals in the poller. The tokens of the ends are their indices.
const SIGNALS: u64 = 2;

/// The reason why the loop returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// SIGUSR1 asked for a report; the loop continues after it.
    Inquired,
    /// The run time is over, or a signal ended the program.
    Over,
}

/// The two ends and the two directions between them.
pub(crate) struct Bridge {
    ends: [PacketSocket; 2],
    /// From the first end to the second, and back.
    pub(crate) directions: [Direction<Packet>; 2],
    poller: Poller,
    /// Watches signals only, so that frames do not wake it.
    rest: Poller,
    signals: Signals,
    batch: FrameBatch,
    pool: Pool,
    due: Vec<Due<Packet>>,
    superpackets: bool,
    /// End of the run time.
    until: Option<Time>,
    /// Time of the next reading of the kernel's drop counters.
    ask: Time,
    /// The load of the program.
    pub(crate) load: Load,
}

impl Bridge {
    /// Opens both ends. From then on the kernel collects frames.
    pub(crate) fn new(arguments: &Arguments) -> Result<Self, Box<dyn std::error::Error>> {
        let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup, Signal::Inquire])?;
        let open = |interface: &str, receive_buffer| {
            let superpackets = arguments.superpackets;
            PacketSocket::open(&PacketConfig { interface, superpackets, receive_buffer })
        };
        let back = if arguments.one_way { 0 } else { RECEIVE_BUFFER };
        let ends = [open(&arguments.left, RECEIVE_BUFFER)?, open(&arguments.right, back)?];
        let hears = if arguments.one_way { 1 } else { ends.len() };
        let poller = Poller::new()?;
        for (token, end) in (0..).zip(&ends).take(hears) {
            poller.add(end.as_fd(), token, Interest::READ)?;
        }
        let rest = Poller::new()?;
        for poller in [&poller, &rest] {
            poller.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        }
        let longest = ends.iter().map(PacketSocket::mtu).max().unwrap_or_default() + ETHERNET;
        let room = if arguments.superpackets { SUPERPACKET } else { longest };
        let now = clock();
        let directions = [(&arguments.to_right, 0), (&arguments.to_left, 1)].map(|(link, number)| {
            Direction::new(link, arguments.memory, arguments.seed.wrapping_mul(2).wrapping_add(number), arguments.most)
        });
        Ok(Self {
            ends,
            directions,
            poller,
            rest,
            signals,
            batch: FrameBatch::new(room),
            pool: Pool::new(room),
            due: Vec::with_capacity(MAX_FRAMES),
            superpackets: arguments.superpackets,
            until: arguments.seconds.map(|seconds| now + seconds),
            ask: now + ASK,
            load: Load::new(now),
        })
    }

    /// Moves frames until a signal comes or the run time is over. Fails if an interface is removed.
    pub(crate) fn run(&mut self) -> io::Result<Pause> {
        let mut events = Events::with_capacity(4);
        let mut now = clock();
        loop {
            let next = self.directions.iter().filter_map(Direction::poll_timeout).min();
            let wake = next.into_iter().chain(self.until).chain([self.ask]).min();
            self.poller.wait(&mut events, wake.map(|wake| wake.since(now)))?;
            let start = clock();
            for event in events.iter() {
                if event.token != SIGNALS {
                    self.take_in(event.token as usize)?;
                } else if let Some(signal) = self.signals.next() {
                    self.ask()?;
                    return Ok(if signal == Signal::Inquire { Pause::Inquired } else { Pause::Over });
                }
            }
            if self.until.is_some_and(|until| start >= until) {
                self.ask()?;
                return Ok(Pause::Over);
            }
            let mut moved = !events.is_empty();
            for direction in 0..self.directions.len() {
                moved |= self.send_due(direction);
            }
            now = clock();
            if now >= self.ask {
                self.ask()?;
                self.ask = now + ASK;
            }
            self.load.worked(start, now);
            let grain = GRAIN.saturating_sub(now.since(start));
            if moved && !grain.is_zero() {
                self.rest.wait(&mut events, Some(grain))?;
                now = clock();
            }
        }
    }

    /// Resets the counts and the load.
    pub(crate) fn reset_counts(&mut self, now: Time) {
        self.directions.iter_mut().for_each(Direction::reset_counts);
        self.load = Load::new(now);
    }

    /// Receives frames from one end, for the direction that begins at that end.
    fn take_in(&mut self, end: usize) -> io::Result<()> {
        for _ in 0..RECEIVE_CALLS {
            match self.ends[end].receive(&mut self.batch) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            let now = clock();
            for place in 0..self.batch.len() {
                self.take(end, place, now);
            }
            if self.batch.len() < MAX_FRAMES {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, end: usize, place: usize, now: Time) {
        let Some(received) = self.batch.get(place) else { return };
        let counts = &mut self.directions[end].counts;
        let longest = if self.superpackets { SUPERPACKET } else { self.ends[end].mtu() + ETHERNET };
        if received.length > longest {
            counts.oversize += 1;
            return;
        }
        if received.unfinished && !self.superpackets {
            counts.unfinished += 1;
            return;
        }
        let buffer = self.batch.swap(place, self.pool.take());
        let arrived = Time(now.0.saturating_sub(u64::try_from(received.age.as_nanos()).unwrap_or(u64::MAX)));
        let direction = &mut self.directions[end];
        direction.arrive(Packet::new(buffer, received.length, self.superpackets), arrived);
        direction.gone.drain(..).for_each(|packet| self.pool.give_back(packet));
    }

    /// Sends the due frames of one direction. Returns true if there were any.
    fn send_due(&mut self, direction: usize) -> bool {
        let mut sent = false;
        let mut now = clock();
        loop {
            while self.due.len() < MAX_FRAMES {
                let Some(due) = self.directions[direction].poll(now) else { break };
                self.due.push(due);
            }
            if self.due.is_empty() {
                return sent;
            }
            sent = true;
            let taken = self.send(1 - direction);
            now = clock();
            for due in self.due.drain(..taken.max(1)) {
                self.directions[direction].sent(&due, taken > 0, now);
                self.pool.give_back(due.frame);
            }
        }
    }

    /// Sends frames from an end, in order. Returns the number of frames that the kernel accepted; 0 if it refused the first.
    fn send(&self, end: usize) -> usize {
        let mut frames: [&[u8]; MAX_FRAMES] = [&[]; MAX_FRAMES];
        for (place, due) in frames.iter_mut().zip(&self.due) {
            *place = due.frame.bytes();
        }
        self.ends[end].send(&frames[..self.due.len()]).unwrap_or(0)
    }

    /// Reads the kernel's counters of frames for which the receive buffer had no room.
    fn ask(&mut self) -> io::Result<()> {
        for (end, direction) in self.ends.iter().zip(&mut self.directions) {
            direction.counts.missed += u64::from(end.missed()?);
        }
        Ok(())
    }
}

fn clock() -> Time {
    Time::from_duration(boot_time())
}
