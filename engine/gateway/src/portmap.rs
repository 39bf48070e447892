//! The agent's handle on the thread.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use taut_base::Prefix;
use taut_event::Waker;
use taut_portmap::{PortmapEvent, Report};

use crate::worker::{Order, Worker};

/// Events that may wait for the agent: as many as sixteen ports make in minutes. When it falls behind by more, the thread waits.
const EVENTS: usize = 64;

/// What [`Portmap::start`] needs to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Our UDP ports, one per lane.
    pub ports: Vec<u16>,
    /// The mark of our packets, for the rules that say where they go; 0 for none.
    pub mark: u32,
    /// The overlay's own addresses: no gateway is there, and no outer address.
    pub overlay: Vec<Prefix>,
}

/// What the agent wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// These ports are to be mapped from now on, all others are given back; none at all while the network is down.
    Ports(Vec<u16>),
    /// Routes, addresses or links changed: perhaps there is another gateway.
    Look,
    /// A mapping is in doubt: they are asked for again, twice a minute at most.
    Check,
}

/// The running thread. Dropping it without [`Self::stop`] lets the thread end by itself, soon.
pub struct Portmap {
    orders: Sender<Order>,
    events: Option<Receiver<PortmapEvent>>,
    report: Arc<Mutex<Report>>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Portmap {
    /// Starts the thread. `waker` is woken whenever [`Self::try_event`] has something.
    ///
    /// # Errors
    /// When the system has no room for a thread or a descriptor.
    pub fn start(options: Options, waker: Waker) -> io::Result<Self> {
        let (order_sender, orders) = mpsc::channel();
        let (event_sender, events) = mpsc::sync_channel(EVENTS);
        let (wake, report) = (Waker::new()?, Arc::default());
        let worker = Worker::new(options, orders, (event_sender, waker), wake.clone(), Arc::clone(&report))?;
        let thread = thread::Builder::new().name(String::from("taut-gateway")).spawn(move || worker.run())?;
        Ok(Self { orders: order_sender, events: Some(events), report, wake, thread: Some(thread) })
    }

    /// Asks for something. Never blocks; the queue is unbounded because the host's own changes fill it, not the network.
    pub fn send(&self, command: Command) {
        let _ = self.orders.send(Order::Obey(command));
        self.wake.wake();
    }

    /// The next event, if there is one. Never blocks.
    pub fn try_event(&self) -> Option<PortmapEvent> {
        self.events.as_ref()?.try_recv().ok()
    }

    /// What became of the asking so far.
    pub fn report(&self) -> Report {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives back what is mapped and waits for the thread: two seconds at most.
    pub fn stop(mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn tell_to_stop(&mut self) {
        // A thread that waits for room in the event queue goes on when nobody reads it any more.
        self.events = None;
        let _ = self.orders.send(Order::Stop);
        self.wake.wake();
    }
}

impl Drop for Portmap {
    fn drop(&mut self) {
        self.tell_to_stop();
    }
}
