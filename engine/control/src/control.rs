//! The agent's handle on the control thread.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use taut_event::Waker;

use crate::error::StartError;
use crate::event::{Command, Event};
use crate::state::StateDir;
use crate::worker::{Order, Queues, Worker};

/// Events that may wait for the agent. When it falls behind by more, the thread waits for it, and so does the coordinator.
const EVENTS: usize = 64;

/// Lines of the event log that may wait for the disk, 256: what a busy start makes. While the disk hangs, further ones are lost and counted.
const LINES: usize = 256;

/// What [`Control::start`] needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The state directory; made when it is not there.
    pub state_dir: PathBuf,
    /// Version of the program, for the operator's eyes.
    pub version: String,
}

/// The running control thread. Dropping it without [`Self::stop`] lets the thread end by itself, soon.
pub struct Control {
    orders: Sender<Order>,
    lines: SyncSender<String>,
    events: Option<Receiver<Event>>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Locks and reads the state directory, then starts the thread. `waker` is woken whenever [`Self::try_event`] has something. The
    /// first events tell what the directory held, and are there when this returns; a node that was up when it stopped connects at once.
    ///
    /// # Errors
    /// When the state directory is in use, unusable or damaged. Nothing was changed then.
    pub fn start(options: Options, waker: Waker) -> Result<Self, StartError> {
        let (state, found) = StateDir::open(&options.state_dir)?;
        let (order_sender, orders) = mpsc::channel();
        let (line_sender, lines) = mpsc::sync_channel(LINES);
        let (event_sender, events) = mpsc::sync_channel(EVENTS);
        let wake = Waker::new().map_err(StartError::System)?;
        let queues = Queues { orders, lines, events: event_sender, wake: wake.clone(), agent: waker };
        let mut worker = Worker::new(state, found, options.version, queues).map_err(StartError::System)?;
        worker.introduce();
        let thread = thread::Builder::new()
            .name(String::from("taut-control"))
            .spawn(move || worker.run())
            .map_err(StartError::System)?;
        Ok(Self { orders: order_sender, lines: line_sender, events: Some(events), wake, thread: Some(thread) })
    }

    /// Asks for something. Never blocks; the queue is unbounded because users and interface changes fill it, not the network.
    pub fn send(&self, command: Command) {
        let _ = self.orders.send(Order::Obey(command));
        self.wake.wake();
    }

    /// Has a line appended to the event log on the disk. Never blocks; returns false if the line is lost, because too many wait for the disk.
    pub fn log(&self, line: String) -> bool {
        let taken = self.lines.try_send(line).is_ok();
        self.wake.wake();
        taken
    }

    /// The next event, if there is one. Never blocks.
    pub fn try_event(&self) -> Option<Event> {
        self.events.as_ref()?.try_recv().ok()
    }

    /// Says goodbye to the coordinator if connected, writes what is not written yet, and waits for the thread: a second at most, plus what
    /// the disk takes. What the user wanted (up or down) stays as it was.
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

impl Drop for Control {
    fn drop(&mut self) {
        self.tell_to_stop();
    }
}
