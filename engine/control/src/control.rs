//! The agent's handle on the control thread.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use taut_event::{Receiver, Sender, UNBOUNDED, Waker, channel};

use crate::error::StartError;
use crate::event::{Command, ControlEvent};
use crate::state::StateDir;
use crate::worker::{Order, Queues, Worker};

/// Events that may wait for the agent, 64. If the agent falls behind by more, the control thread waits for it and stops reading from the coordinator.
const EVENTS: usize = 64;

/// Lines of the event log that may wait for the disk, 256, as many as a busy start produces. While the disk hangs, further lines are lost and counted.
const LINES: usize = 256;

/// Options of [`Control::start`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The state directory; created if it is missing.
    pub state_dir: PathBuf,
    /// Version of the program, shown to the network's operator.
    pub version: String,
    /// Makes the line of the event log that reports this number of lost lines, for the end of the program.
    pub log_gap: fn(u64) -> String,
}

/// Handle of the running control thread. After a drop without [`Self::stop`] the thread ends soon, on its own.
pub struct Control {
    orders: Sender<Order>,
    lines: Sender<String>,
    events: Option<Receiver<ControlEvent>>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Locks and reads the state directory, calls `ready`, then starts the thread, which inherits what `ready` gave up. `waker` is woken whenever [`Self::try_event`] has an event. The first events describe
    /// the directory's content, and are queued when this returns. A node that was up when it stopped connects at once.
    ///
    /// # Errors
    /// If the state directory is in use, unusable or damaged. Nothing is changed in that case.
    pub fn start(options: Options, waker: Waker, ready: impl FnOnce()) -> Result<Self, StartError> {
        let (state, found) = StateDir::open(&options.state_dir)?;
        ready();
        let (order_sender, orders) = channel(UNBOUNDED);
        let (line_sender, lines) = channel(LINES);
        let (event_sender, events) = channel(EVENTS);
        let wake = Waker::new().map_err(StartError::System)?;
        let queues =
            Queues { orders, lines, log_gap: options.log_gap, events: event_sender, wake: wake.clone(), agent: waker };
        let mut worker = Worker::new(state, found, options.version, queues).map_err(StartError::System)?;
        worker.introduce();
        let thread = thread::Builder::new()
            .name(String::from("taut-control"))
            .spawn(move || worker.run())
            .map_err(StartError::System)?;
        Ok(Self { orders: order_sender, lines: line_sender, events: Some(events), wake, thread: Some(thread) })
    }

    /// Sends a command to the thread. Never blocks; the queue is unbounded because users and interface changes fill it, not the network.
    pub fn send(&self, command: Command) {
        let _ = self.orders.send(Order::Command(command));
        self.wake.wake();
    }

    /// Queues a line for the event log on the disk. Never blocks. Returns false if the line is lost because too many lines wait for the disk.
    pub fn log(&self, line: String) -> bool {
        let queued = self.lines.try_send(line).is_ok();
        self.wake.wake();
        queued
    }

    /// Returns the next event, if one is queued. Never blocks.
    pub fn try_event(&self) -> Option<ControlEvent> {
        self.events.as_ref()?.try_recv().ok()
    }

    /// Sends a goodbye to the coordinator if connected, saves all unsaved state, and waits for the thread: a second at most, plus the time of the disk
    /// writes. The saved choice of up or down stays as it was.
    pub fn stop(mut self) {
        self.signal_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn signal_stop(&mut self) {
        // Dropping the receiver wakes a thread that waits for room in the event queue.
        self.events = None;
        let _ = self.orders.send(Order::Stop);
        self.wake.wake();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.signal_stop();
    }
}
