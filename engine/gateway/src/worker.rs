//! The thread: one loop over two sockets, the agent's commands, answers of fetches, and the machine's deadlines.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::{Prefix, Time};
use taut_event::{Events, Interest, Poller, Receiver, Sender, Waker, boot_time, channel};
use taut_netlink::Netlink;
use taut_portmap::http::Answer;
use taut_portmap::{FetchError, Gateway, GatewaySocket, PortMapper, PortmapEvent, PortmapOutput, PortmapReport};

use crate::contract::{PortmapCommand, PortmapOptions};
use crate::fetch::fetch;
use crate::sockets::{Incoming, PCP, SSDP, Sockets};

/// The poller's token for commands and answers of fetches.
const COMMANDS: u64 = 0;

/// The destination whose route shows the gateway: PCP's anycast address (RFC 7723), which no host has. Nothing is sent to it.
const INTERNET: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 9);

/// Limit on giving back all mappings at the end, 1.9 s. A gateway answers within milliseconds; one that does not keeps the mapping until its lease
/// ends.
const RELEASE_TIME: Duration = Duration::from_millis(1_900);

/// Datagrams read from one socket before other work is done, and the pause after that many: a flood on the local network costs at most some thousand
/// datagrams per second.
const MAX_DATAGRAMS: usize = 32;
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

/// Limit on concurrent fetches: one, and those that the machine gave up on a moment ago.
const MAX_FETCHES: usize = 3;

/// A message of the handle to the thread.
pub(crate) enum WorkerCommand {
    /// A command of the agent.
    Agent(PortmapCommand),
    /// Give back all mappings and end.
    Stop,
}

type Random = Box<dyn FnMut(&mut [u8]) + Send>;
type Fetched = (u32, Result<Answer, FetchError>);

/// The state of the thread.
pub(crate) struct Worker {
    machine: PortMapper<Random>,
    netlink: Option<Netlink>,
    mark: u32,
    overlay: Vec<Prefix>,
    poller: Poller,
    /// The sockets towards [`Self::gateway`], opened when something is sent.
    sockets: Option<Sockets>,
    gateway: Option<Gateway>,
    fetches: usize,
    answers: (Sender<Fetched>, Receiver<Fetched>),
    commands: Receiver<WorkerCommand>,
    events: (Sender<PortmapEvent>, Waker),
    wake: Waker,
    report: Arc<Mutex<PortmapReport>>,
}

impl Worker {
    pub(crate) fn new(
        options: PortmapOptions,
        commands: Receiver<WorkerCommand>,
        events: (Sender<PortmapEvent>, Waker),
        wake: Waker,
        report: Arc<Mutex<PortmapReport>>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(wake.as_fd(), COMMANDS, Interest::READ)?;
        let system = SystemRandom::new();
        // If a nonce is not random, another host may guess it and add a candidate, on which no probe is answered.
        let random: Random = Box::new(move |bytes| {
            let _ = system.fill(bytes);
        });
        let mut machine = PortMapper::new(random, options.overlay.clone());
        machine.set_ports(&options.ports, now());
        Ok(Self {
            machine,
            netlink: None,
            mark: options.mark,
            overlay: options.overlay,
            poller,
            sockets: None,
            gateway: None,
            fetches: 0,
            answers: channel(MAX_FETCHES),
            commands,
            events,
            wake,
            report,
        })
    }

    /// Runs until it is told to stop or the handle is gone.
    pub(crate) fn run(mut self) {
        self.look_up_gateway();
        let mut ready = Events::with_capacity(4);
        while self.take_commands() {
            self.turn(&mut ready, None);
        }
        self.machine.set_ports(&[], now());
        let end = now() + RELEASE_TIME;
        while !self.machine.is_quiet() && now() < end {
            self.turn(&mut ready, Some(end));
        }
    }

    /// Does what is due, waits until `end` at most, and takes what arrived.
    fn turn(&mut self, ready: &mut Events, end: Option<Time>) {
        let before = now();
        self.machine.handle_timeout(before);
        self.carry_out();
        let next = [self.machine.poll_timeout(), end].into_iter().flatten().min();
        if self.poller.wait(ready, next.map(|next| next.since(before))).is_err() {
            // Waiting fails only on a host without memory; a pause lets it recover.
            thread::sleep(Duration::from_millis(100));
        }
        self.wake.drain();
        for event in ready.iter() {
            match event.token {
                PCP => self.receive(GatewaySocket::Pcp),
                SSDP => self.receive(GatewaySocket::Ssdp),
                _ => {}
            }
        }
        while let Ok((id, answer)) = self.answers.1.try_recv() {
            self.fetches = self.fetches.saturating_sub(1);
            self.machine.handle_answer(id, answer, now());
        }
        self.carry_out();
    }

    /// Carries out the commands that wait. Returns false when the thread has to end.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(WorkerCommand::Agent(PortmapCommand::Ports(ports))) => self.machine.set_ports(&ports, now()),
                Ok(WorkerCommand::Agent(PortmapCommand::Look)) => self.look_up_gateway(),
                Ok(WorkerCommand::Agent(PortmapCommand::Check)) => self.machine.check(now()),
                Ok(WorkerCommand::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Asks the kernel for the gateway. If the kernel does not answer, the last known gateway stays (law 6).
    fn look_up_gateway(&mut self) {
        if self.netlink.is_none() {
            self.netlink = Netlink::open().ok();
        }
        let Some(netlink) = &mut self.netlink else { return };
        let Ok(hop) = netlink.first_hop(IpAddr::V4(INTERNET), self.mark) else {
            self.netlink = None;
            return;
        };
        let ours = |address: IpAddr| !self.overlay.iter().any(|prefix| prefix.contains(address));
        let gateway = hop.and_then(|hop| match (hop.gateway, hop.own) {
            (IpAddr::V4(address), IpAddr::V4(own)) if ours(hop.gateway) => Some(Gateway { address, own }),
            _ => None,
        });
        if gateway != self.gateway {
            self.gateway = gateway;
            self.close();
        }
        self.machine.set_gateway(gateway, now());
    }

    fn close(&mut self) {
        if let Some(sockets) = self.sockets.take() {
            sockets.close(&self.poller);
        }
    }

    fn receive(&mut self, socket: GatewaySocket) {
        for _ in 0..MAX_DATAGRAMS {
            let Some(sockets) = &self.sockets else { return };
            match sockets.receive(socket) {
                Incoming::Datagram(from, bytes) => self.machine.handle_datagram(socket, from, &bytes, now()),
                Incoming::Closed => self.machine.handle_closed(now()),
                Incoming::Nothing => return,
            }
            self.carry_out();
        }
        thread::sleep(FLOOD_PAUSE);
    }

    /// Carries out the machine's outputs, and wakes the agent for events.
    fn carry_out(&mut self) {
        let mut told = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                PortmapOutput::Send { socket, to, bytes } => self.send(socket, to, &bytes),
                PortmapOutput::Fetch { id, place, request } => self.fetch(id, place, request),
                PortmapOutput::Event(event) => told |= self.events.0.send(event).is_ok(),
            }
        }
        let report = self.machine.report();
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
        if told {
            self.events.1.wake();
        }
    }

    fn send(&mut self, socket: GatewaySocket, to: SocketAddrV4, bytes: &[u8]) {
        if self.sockets.is_none() {
            // This host's address may have vanished before the agent reported it: a datagram that cannot be sent is sent again later.
            self.sockets = self.gateway.and_then(|gateway| Sockets::open(gateway, &self.poller).ok());
        }
        if self.sockets.as_ref().is_some_and(|sockets| !sockets.send(socket, to, bytes)) {
            self.machine.handle_closed(now());
        }
    }

    fn fetch(&mut self, id: u32, place: SocketAddrV4, request: Vec<u8>) {
        let (answers, wake) = (self.answers.0.clone(), self.wake.clone());
        let ask = move || {
            let _ = answers.send((id, fetch(place, &request)));
            wake.wake();
        };
        let started =
            self.fetches < MAX_FETCHES && thread::Builder::new().name(String::from("taut-gw-fetch")).spawn(ask).is_ok();
        if started {
            self.fetches += 1;
        } else {
            self.machine.handle_answer(id, Err(FetchError::NoConnection), now());
        }
    }
}

fn now() -> Time {
    Time::from_duration(boot_time())
}
