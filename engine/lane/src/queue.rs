//! The bounded queues between agent and lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use taut_event::Waker;
use taut_node::{FromLane, ToLane};

/// Commands that wait for a lane. A map of hundreds of peers fills it; the agent then goes on when there is room again. All of its memory is touched
/// when it is made: 51 KiB.
const COMMANDS: usize = 256;

/// Messages that wait for the agent.
const MESSAGES: usize = 256;

/// Handshake messages among them; those beyond are dropped and counted (law 11). The rest of the queue is for what happens to our own peers, which a
/// flood of handshakes must not keep from the agent.
const HANDSHAKES: usize = 128;

/// Makes both queues. `agent` is woken when a lane said something, `lane` when a command waits.
pub fn queues(agent: Waker, lane: Waker) -> (AgentEnd, LaneEnd) {
    let (to_lane, commands) = sync_channel(COMMANDS);
    let (to_agent, messages) = sync_channel(MESSAGES);
    let handshakes = Arc::new(AtomicUsize::new(0));
    let agent_end = AgentEnd { to_lane, messages, handshakes: Arc::clone(&handshakes), lane };
    let lane_end = LaneEnd { commands, to_agent, handshakes, agent };
    (agent_end, lane_end)
}

/// The agent's end.
pub struct AgentEnd {
    to_lane: SyncSender<ToLane>,
    messages: Receiver<FromLane>,
    handshakes: Arc<AtomicUsize>,
    lane: Waker,
}

impl AgentEnd {
    /// Hands a command over, or gives it back when the queue is full or the lane is gone: try again later.
    ///
    /// # Errors
    /// The command.
    #[expect(
        clippy::result_large_err,
        reason = "the command comes back to be tried again; boxing would allocate for each"
    )]
    pub fn send(&self, command: ToLane) -> Result<(), ToLane> {
        match self.to_lane.try_send(command) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) => Err(command),
        }
    }

    /// Wakes the lane, once after several commands.
    pub fn wake(&self) {
        self.lane.wake();
    }

    /// What the lane said.
    pub fn receive(&self) -> Option<FromLane> {
        let message = self.messages.try_recv().ok()?;
        if matches!(message, FromLane::Handshake { .. }) {
            self.handshakes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(message)
    }
}

/// The lane's end.
pub struct LaneEnd {
    commands: Receiver<ToLane>,
    to_agent: SyncSender<FromLane>,
    /// Handshake messages in the queue.
    handshakes: Arc<AtomicUsize>,
    agent: Waker,
}

impl LaneEnd {
    /// The next command, if one waits.
    pub fn command(&self) -> Option<ToLane> {
        self.commands.try_recv().ok()
    }

    /// Tells the agent, or gives the message back when there is no room for it. An agent that is gone takes everything.
    ///
    /// # Errors
    /// The message.
    #[expect(
        clippy::result_large_err,
        reason = "the message comes back to be said again; boxing would allocate for each"
    )]
    pub fn send(&self, message: FromLane) -> Result<(), FromLane> {
        let handshake = matches!(message, FromLane::Handshake { .. });
        if handshake && self.handshakes.load(Ordering::Relaxed) >= HANDSHAKES {
            return Err(message);
        }
        // Counted before it is there: whoever takes it out subtracts.
        if handshake {
            self.handshakes.fetch_add(1, Ordering::Relaxed);
        }
        match self.to_agent.try_send(message) {
            Ok(()) => {
                self.wake_agent();
                Ok(())
            }
            Err(TrySendError::Full(message)) => {
                if handshake {
                    self.handshakes.fetch_sub(1, Ordering::Relaxed);
                }
                Err(message)
            }
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Has the agent look.
    pub(crate) fn wake_agent(&self) {
        self.agent.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use taut_base::PeerId;
    use taut_node::HandshakeMessage;

    use super::*;

    fn handshake() -> FromLane {
        let message = HandshakeMessage::new(&[1; 148]).unwrap();
        FromLane::Handshake { source: SocketAddr::from(([192, 0, 2, 1], 1)).into(), message }
    }

    fn ends() -> (AgentEnd, LaneEnd) {
        queues(Waker::new().unwrap(), Waker::new().unwrap())
    }

    #[test]
    fn fault_b2_handshakes_fill_half_of_the_queue_and_leave_the_rest_to_our_peers() {
        let (agent, lane) = ends();
        let taken = (0..1_000).take_while(|_| lane.send(handshake()).is_ok()).count();
        assert_eq!(taken, 128);
        let ours = (0..1_000).take_while(|_| lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok()).count();
        assert_eq!(ours, 128, "what our own peers need still has room");
        assert_eq!(lane.send(handshake()), Err(handshake()), "it comes back, to be said again");
        assert!(agent.receive().is_some());
        assert_eq!(lane.send(handshake()), Ok(()), "one was taken out, one has room");
    }

    #[test]
    fn places_for_handshakes_come_back_whatever_the_queue_was_full_of() {
        let (agent, lane) = ends();
        for _ in 0..3 {
            while lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok() {}
            // Refused for the whole queue's sake: counted back at once, or the places would be gone for ever.
            for _ in 0..200 {
                assert_eq!(lane.send(handshake()), Err(handshake()));
            }
            while agent.receive().is_some() {}
            assert_eq!((0..1_000).take_while(|_| lane.send(handshake()).is_ok()).count(), 128);
            while agent.receive().is_some() {}
        }
    }

    #[test]
    fn an_agent_that_is_gone_takes_everything() {
        let (agent, lane) = ends();
        drop(agent);
        assert!((0..1_000).all(|_| lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok()));
    }
}
