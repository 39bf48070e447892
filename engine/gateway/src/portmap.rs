//! The agent's handle on the gateway thread.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use taut_event::{Receiver, Sender, UNBOUNDED, Waker, channel};
use taut_portmap::{PortmapEvent, PortmapReport};

use crate::contract::{PortmapCommand, PortmapOptions};
use crate::worker::{Worker, WorkerCommand};

/// Limit on events that wait for the agent, 64: as many as sixteen ports cause in minutes. If the agent falls behind by more, the thread waits.
const EVENTS: usize = 64;

/// The running thread. If it is dropped without [`Self::stop`], the thread ends soon on its own.
pub struct Portmap {
    commands: Sender<WorkerCommand>,
    events: Option<Receiver<PortmapEvent>>,
    report: Arc<Mutex<PortmapReport>>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Portmap {
    /// Starts the thread. `waker` is woken whenever [`Self::try_event`] has something to return.
    ///
    /// # Errors
    /// An error if the system has no room for a thread or a descriptor.
    pub fn start(options: PortmapOptions, waker: Waker) -> io::Result<Self> {
        let (command_sender, commands) = channel(UNBOUNDED);
        let (event_sender, events) = channel(EVENTS);
        let (wake, report) = (Waker::new()?, Arc::default());
        let worker = Worker::new(options, commands, (event_sender, waker), wake.clone(), Arc::clone(&report))?;
        let thread = thread::Builder::new().name(String::from("taut-gateway")).spawn(move || worker.run())?;
        Ok(Self { commands: command_sender, events: Some(events), report, wake, thread: Some(thread) })
    }

    /// Sends a command. Never blocks; the queue is unbounded because only the host's own changes fill it, not the network.
    pub fn send(&self, command: PortmapCommand) {
        let _ = self.commands.send(WorkerCommand::Agent(command));
        self.wake.wake();
    }

    /// Returns the next event, if there is one. Never blocks.
    pub fn try_event(&self) -> Option<PortmapEvent> {
        self.events.as_ref()?.try_recv().ok()
    }

    /// Returns the result of all requests so far.
    pub fn report(&self) -> PortmapReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives back all mappings and waits for the thread, two seconds at most.
    pub fn stop(mut self) {
        self.send_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn send_stop(&mut self) {
        // A thread that waits for room in the event queue continues once the queue has no reader.
        self.events = None;
        let _ = self.commands.send(WorkerCommand::Stop);
        self.wake.wake();
    }
}

impl Drop for Portmap {
    fn drop(&mut self) {
        self.send_stop();
    }
}
