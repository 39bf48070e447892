//! The thread: one loop over two sockets, the agent's orders, answers of fetches, and the machine's deadlines.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::{Prefix, Time};
use taut_event::{Events, Interest, Poller, Waker, boot_time};
use taut_netlink::Netlink;
use taut_portmap::http::Answer;
use taut_portmap::{Door, Failure, Gateway, Machine, PortmapEvent, PortmapOutput, Report};

use crate::fetch::fetch;
use crate::portmap::{Command, Options};
use crate::sockets::{Heard, PCP, SSDP, Sockets};

/// The name of orders and answers for the poller.
const ORDERS: u64 = 0;

/// Where the way to the Internet is asked for: PCP's own anycast address (RFC 7723), which no host has. Nothing is sent there.
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 9);

/// How long the end may take. A gateway answers within milliseconds; one that does not keeps the mapping until its lease is over.
const FAREWELL: Duration = Duration::from_millis(1_900);

/// Datagrams that are read of one socket before the other things have their turn, and a pause after so many: a flood on the local
/// network costs at most some thousand datagrams a second.
const MAX_HEARD: usize = 32;
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

/// Fetches under way at once: one, and those that the machine gave up on a moment ago.
const MAX_FETCHES: usize = 3;

/// What the handle tells the thread.
pub(crate) enum Order {
    /// Something the agent wants.
    Obey(Command),
    /// The end.
    Stop,
}

type Random = Box<dyn FnMut(&mut [u8]) + Send>;
type Fetched = (u32, Result<Answer, Failure>);

/// The thread's whole state.
pub(crate) struct Worker {
    machine: Machine<Random>,
    netlink: Option<Netlink>,
    mark: u32,
    overlay: Vec<Prefix>,
    poller: Poller,
    /// For [`Self::gateway`]; opened when something is to be sent.
    sockets: Option<Sockets>,
    gateway: Option<Gateway>,
    fetches: usize,
    answers: (Sender<Fetched>, Receiver<Fetched>),
    orders: Receiver<Order>,
    events: (SyncSender<PortmapEvent>, Waker),
    wake: Waker,
    report: Arc<Mutex<Report>>,
}

impl Worker {
    pub(crate) fn new(
        options: Options,
        orders: Receiver<Order>,
        events: (SyncSender<PortmapEvent>, Waker),
        wake: Waker,
        report: Arc<Mutex<Report>>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(wake.as_fd(), ORDERS, Interest::READ)?;
        let system = SystemRandom::new();
        // A nonce that is not random is one that a stranger may guess: a candidate more, and nothing else.
        let random: Random = Box::new(move |bytes| {
            let _ = system.fill(bytes);
        });
        let mut machine = Machine::new(random, options.overlay.clone());
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
            answers: mpsc::channel(),
            orders,
            events,
            wake,
            report,
        })
    }

    /// Runs until it is told to stop or nobody listens any more.
    pub(crate) fn run(mut self) {
        self.look();
        let mut ready = Events::with_capacity(4);
        while self.take_orders() {
            self.turn(&mut ready, None);
        }
        self.machine.set_ports(&[], now());
        let end = now() + FAREWELL;
        while !self.machine.is_quiet() && now() < end {
            self.turn(&mut ready, Some(end));
        }
    }

    /// Does what is due, waits until `end` at most, hears what came.
    fn turn(&mut self, ready: &mut Events, end: Option<Time>) {
        let before = now();
        self.machine.handle_timeout(before);
        self.act();
        let next = [self.machine.poll_timeout(), end].into_iter().flatten().min();
        if self.poller.wait(ready, next.map(|next| next.since(before))).is_err() {
            // Only a host without memory gets here; it gets a moment to recover.
            thread::sleep(Duration::from_millis(100));
        }
        self.wake.drain();
        for event in ready.iter() {
            match event.token {
                PCP => self.hear(Door::Pcp),
                SSDP => self.hear(Door::Ssdp),
                _ => {}
            }
        }
        while let Ok((id, answer)) = self.answers.1.try_recv() {
            self.fetches = self.fetches.saturating_sub(1);
            self.machine.handle_answer(id, answer, now());
        }
        self.act();
    }

    /// False when it is time to end.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Obey(Command::Ports(ports))) => self.machine.set_ports(&ports, now()),
                Ok(Order::Obey(Command::Look)) => self.look(),
                Ok(Order::Obey(Command::Check)) => self.machine.check(now()),
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Asks the kernel who is in front of us. When it does not answer, the last known gateway stays (law 6).
    fn look(&mut self) {
        if self.netlink.is_none() {
            self.netlink = Netlink::open().ok();
        }
        let Some(netlink) = &mut self.netlink else { return };
        let Ok(hop) = netlink.first_hop(IpAddr::V4(FAR), self.mark) else {
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

    fn hear(&mut self, door: Door) {
        for _ in 0..MAX_HEARD {
            let Some(sockets) = &self.sockets else { return };
            match sockets.receive(door) {
                Heard::Datagram(from, bytes) => self.machine.handle_datagram(door, from, &bytes, now()),
                Heard::Closed => self.machine.handle_closed(now()),
                Heard::Nothing => return,
            }
            self.act();
        }
        thread::sleep(FLOOD_PAUSE);
    }

    /// Carries out what the machine wants, and tells the agent.
    fn act(&mut self) {
        let mut told = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                PortmapOutput::Send { door, to, bytes } => self.send(door, to, &bytes),
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

    fn send(&mut self, door: Door, to: SocketAddrV4, bytes: &[u8]) {
        if self.sockets.is_none() {
            // Our address may be gone a moment before we are told to look again: what is not sent is asked again.
            self.sockets = self.gateway.and_then(|gateway| Sockets::open(gateway, &self.poller).ok());
        }
        if self.sockets.as_ref().is_some_and(|sockets| !sockets.send(door, to, bytes)) {
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
            self.machine.handle_answer(id, Err(Failure::NoConnection), now());
        }
    }
}

fn now() -> Time {
    Time::from_duration(boot_time())
}
