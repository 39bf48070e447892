//! One lane's thread of a [`LanesHost`](super::LanesHost): its queues, and one turn of it (engine/lane/src/thread.rs and thread/hand_off.rs).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{LaneId, Placement, Time};
use taut_lane::{Flush, InboundIo, LaneCore, Mark, SendBatch};
use taut_node::{Reading, ToLane};
use taut_tun::flow;
use taut_udp::Transmit;
use taut_wire::merge::Run;

use super::model::CoreModel;
use super::{Given, assert_given_once};

/// Packets that a TUN queue holds, 500 (`TUN_READQ_SIZE`, drivers/net/tun.c). The kernel drops more.
const TUN_QUEUE: usize = 500;

/// One lane's thread.
pub(super) struct SimThread {
    pub(super) core: LaneCore,
    out: SendBatch,
    /// The delay of all its inputs: datagrams, commands, handed-off packets.
    pub(super) late: Duration,
    commands: VecDeque<(Time, ToLane)>,
    datagrams: VecDeque<(Time, SocketAddr, Vec<u8>)>,
    /// Datagrams that other lanes handed off.
    strays: VecDeque<(Time, SocketAddr, Vec<u8>)>,
    /// Packets and marks that other lanes handed off, in order.
    handed_off: VecDeque<(Time, HandedOff)>,
    /// The TUN queue.
    queue: VecDeque<Vec<u8>>,
    reading: Reading,
    /// The lane of each flow, while this lane distributes the host's packets.
    placement: Placement,
    /// Handed-off items that are taken before anything is read from the TUN.
    rings_first: usize,
    drain: Option<DrainProgress>,
    work: CoreModel,
}

/// What waited when the agent asked for a drain and is still to be taken.
struct DrainProgress {
    queued: usize,
    handed_off: usize,
}

/// An item that one lane hands off to another.
pub(super) enum HandedOff {
    /// A packet. It is `steered` if the receiver chooses its lane as if it had read the packet, and otherwise the first lane's to seal.
    Packet {
        packet: Vec<u8>,
        steered: bool,
    },
    Mark(Mark),
}

/// What a turn leaves to the other lanes and to the world.
#[derive(Default)]
pub(super) struct TurnOutputs {
    pub(super) handed_off: Vec<(LaneId, HandedOff)>,
    pub(super) strays: Vec<(LaneId, SocketAddr, Vec<u8>)>,
    pub(super) transmits: Vec<(SocketAddr, Vec<u8>)>,
}

/// The parts of the host that a turn uses.
pub(super) struct TurnContext<'a> {
    pub(super) own: LaneId,
    pub(super) given: &'a mut Given,
    pub(super) delivered: &'a mut VecDeque<Vec<u8>>,
}

impl SimThread {
    pub(super) fn new(core: LaneCore, own: LaneId, late: Duration, cost: Duration) -> Self {
        Self {
            core,
            out: SendBatch::new(),
            late,
            commands: VecDeque::new(),
            datagrams: VecDeque::new(),
            strays: VecDeque::new(),
            handed_off: VecDeque::new(),
            queue: VecDeque::new(),
            reading: if own == LaneId::FIRST { Reading::Own } else { Reading::Nothing },
            placement: Placement::FIRST,
            rings_first: 0,
            drain: None,
            work: CoreModel::new(cost),
        }
    }

    pub(super) fn tell(&mut self, command: ToLane, now: Time) {
        self.commands.push_back((now + self.late, command));
    }

    pub(super) fn receive(&mut self, source: SocketAddr, datagram: Vec<u8>, now: Time) {
        self.datagrams.push_back((now + self.late, source, datagram));
    }

    pub(super) fn receive_stray(&mut self, source: SocketAddr, datagram: Vec<u8>, now: Time) {
        self.strays.push_back((now + self.late, source, datagram));
    }

    pub(super) fn take(&mut self, item: HandedOff, now: Time) {
        self.handed_off.push_back((now + self.late, item));
    }

    /// Adds a packet to the TUN queue. Returns false if the queue is full.
    pub(super) fn queue(&mut self, packet: &[u8]) -> bool {
        let has_room = self.queue.len() < TUN_QUEUE;
        if has_room {
            self.queue.push_back(packet.to_vec());
        }
        has_room
    }

    /// Returns true if no packet of the host waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.handed_off.is_empty() && !self.core.has_released()
    }

    /// Returns the time of the next input that is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let inputs = [
            self.core.poll_timeout(),
            self.commands.front().map(|(due, _)| *due),
            self.datagrams.front().map(|(due, ..)| *due),
            self.strays.front().map(|(due, ..)| *due),
            self.handed_off.front().map(|(due, _)| *due),
        ];
        let waits = !self.queue.is_empty() && self.reading != Reading::Nothing && self.rings_first == 0;
        let read = waits.then(|| self.work.free_at());
        inputs.into_iter().chain([read]).flatten().min()
    }

    /// Does one turn, in the daemon's order: commands, datagrams, handed-off packets, the queue. Returns false if there was nothing to do.
    pub(super) fn turn(&mut self, context: TurnContext<'_>, outputs: &mut TurnOutputs, now: Time) -> bool {
        let TurnContext { own, given, delivered } = context;
        let work = self.work;
        self.core.turn_begins(now, || Some((work.worked(now), Duration::ZERO)));
        let mut busy = false;
        while let Some((_, command)) = self.commands.pop_front_if(|(due, _)| *due <= now) {
            assert_given_once(given, own, &command);
            self.command(command, now);
            self.transmit(outputs, now);
            busy = true;
        }
        while let Some((source, mut datagram, is_stray)) = self.next_datagram(now) {
            let mut later = Vec::new();
            let (commands, strays) = (&mut self.commands, &mut outputs.strays);
            let mut io = SimIo { own, is_stray, commands, given, delivered, strays, later: &mut later };
            let length = datagram.len();
            self.core.count_datagrams(1);
            self.work.received();
            self.core.inbound(source, &mut datagram, length, &mut io, &mut self.out, now);
            later.into_iter().for_each(|command| self.command(command, now));
            self.transmit(outputs, now);
            busy = true;
        }
        while let Some((_, item)) = self.handed_off.pop_front_if(|(due, _)| *due <= now) {
            self.rings_first = self.rings_first.saturating_sub(1);
            self.drain.iter_mut().for_each(|drain| drain.handed_off = drain.handed_off.saturating_sub(1));
            match item {
                HandedOff::Packet { packet, steered: true } => self.send(packet, outputs, now),
                HandedOff::Packet { packet, .. } => self.core.outbound_handed_off(&packet, &mut self.out, now),
                HandedOff::Mark(mark) => self.core.mark_handed_off(mark, &mut self.out, now),
            }
            self.transmit(outputs, now);
            self.release(outputs, now);
            busy = true;
        }
        self.release(outputs, now);
        self.transmit(outputs, now);
        while self.may_read(now) {
            let Some(packet) = self.queue.pop_front() else { break };
            self.drain.iter_mut().for_each(|drain| drain.queued = drain.queued.saturating_sub(1));
            let lane = self.placement.lane(flow(&packet));
            if self.reading == Reading::Spread && lane != own {
                outputs.handed_off.push((lane, HandedOff::Packet { packet, steered: true }));
            } else {
                self.send(packet, outputs, now);
            }
            self.transmit(outputs, now);
            self.release(outputs, now);
            busy = true;
        }
        while self.core.send_backlog(&mut self.out, now) {
            self.transmit(outputs, now);
        }
        self.finish_drain();
        self.transmit(outputs, now);
        self.core.turn_ends(now);
        busy
    }

    /// Runs the timers of the lane core.
    pub(super) fn handle_timeout(&mut self, outputs: &mut TurnOutputs, now: Time) {
        self.core.handle_timeout(&mut self.out, now);
        self.transmit(outputs, now);
    }

    /// Carries out a command that does not come through the queue.
    pub(super) fn command_now(&mut self, command: ToLane, outputs: &mut TurnOutputs, now: Time) {
        self.command(command, now);
        self.transmit(outputs, now);
    }

    fn command(&mut self, command: ToLane, now: Time) {
        match command {
            ToLane::Read(reading) => {
                self.reading = reading;
                self.rings_first = self.handed_off.len();
            }
            ToLane::Drain => {
                let queued = if self.reading == Reading::Nothing { 0 } else { self.queue.len() };
                self.drain = Some(DrainProgress { queued, handed_off: self.handed_off.len() });
                self.core.begin_drain(now);
            }
            ToLane::Lanes(placement) => {
                self.placement = placement;
                self.core.set_placement(placement);
            }
            other => self.core.command(other, &mut self.out, now),
        }
    }

    fn next_datagram(&mut self, now: Time) -> Option<(SocketAddr, Vec<u8>, bool)> {
        let own = self.datagrams.pop_front_if(|(due, ..)| *due <= now);
        let own = own.map(|(_, source, datagram)| (source, datagram, false));
        let mut stray = || self.strays.pop_front_if(|(due, ..)| *due <= now);
        own.or_else(|| stray().map(|(_, source, datagram)| (source, datagram, true)))
    }

    fn may_read(&self, now: Time) -> bool {
        let free = self.work.free_at() <= now && self.rings_first == 0;
        free && self.reading != Reading::Nothing && !self.core.has_released()
    }

    fn send(&mut self, packet: Vec<u8>, outputs: &mut TurnOutputs, now: Time) {
        let hand_off = self.core.outbound(&packet, &mut self.out, now);
        if hand_off.packet {
            outputs.handed_off.push((LaneId::FIRST, HandedOff::Packet { packet, steered: false }));
        }
        outputs.handed_off.extend(hand_off.mark.map(|mark| (LaneId::FIRST, HandedOff::Mark(mark))));
    }

    /// Sends held packets whose wait is over. The batch has room for each of them.
    fn release(&mut self, outputs: &mut TurnOutputs, now: Time) {
        while let Some(released) = self.core.release(&mut self.out, now) {
            let packet = released.packet.map(|packet| HandedOff::Packet { packet: packet.into(), steered: false });
            let mark = released.mark.map(HandedOff::Mark);
            outputs.handed_off.extend(packet.into_iter().chain(mark).map(|item| (LaneId::FIRST, item)));
            self.transmit(outputs, now);
        }
    }

    fn finish_drain(&mut self) {
        let done = |drain: &DrainProgress| drain.queued == 0 && drain.handed_off == 0;
        if self.drain.as_ref().is_some_and(done) && !self.core.has_released() {
            self.drain = None;
            self.core.end_drain();
        }
    }

    fn transmit(&mut self, outputs: &mut TurnOutputs, now: Time) {
        while !self.out.is_empty() {
            let destination = SocketAddr::from(([0, 0, 0, 0], 0));
            let mut run = [Transmit { destination, contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut run);
            for Transmit { destination, contents, segment_size, .. } in run {
                for datagram in contents.chunks(segment_size) {
                    self.work.sent(now);
                    self.core.count_datagrams(1);
                    outputs.transmits.push((destination, datagram.to_vec()));
                }
            }
            self.out.consume(count, 0);
        }
    }
}

/// The TUN, the command queue and the other lanes, for one received datagram.
struct SimIo<'a> {
    own: LaneId,
    /// True if another lane handed the datagram off: nothing is handed off a second time.
    is_stray: bool,
    commands: &'a mut VecDeque<(Time, ToLane)>,
    given: &'a mut Given,
    delivered: &'a mut VecDeque<Vec<u8>>,
    strays: &'a mut Vec<(LaneId, SocketAddr, Vec<u8>)>,
    /// Commands for the thread, which it carries out after this datagram.
    later: &'a mut Vec<ToLane>,
}

impl InboundIo for SimIo<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.delivered.push_back(run.slices().collect::<Vec<_>>().concat());
        true
    }

    fn hand_off(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        if !self.is_stray {
            self.strays.push((to, source, datagram.to_vec()));
        }
        !self.is_stray
    }

    fn next_command(&mut self) -> Option<ToLane> {
        loop {
            let (_, command) = self.commands.pop_front()?;
            assert_given_once(self.given, self.own, &command);
            match command {
                command @ (ToLane::Read(_) | ToLane::Drain | ToLane::Lanes(_)) => self.later.push(command),
                command => return Some(command),
            }
        }
    }
}
