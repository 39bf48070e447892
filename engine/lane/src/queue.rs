//! The bounded queues between the agent and a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TrySendError;

use taut_event::{Receiver, Sender, Waker, channel};
use taut_node::{FromLane, ToLane};

/// Commands that wait for a lane at most, 256. A map of hundreds of peers fills the queue; the agent then goes on when there is room again. They take
/// 51 KiB then, which is freed when the lane has taken them.
const COMMANDS: usize = 256;

/// Messages of one lane that wait for the agent at most, 256.
const MESSAGES: usize = 256;

/// Handshake messages among them at most, 128; more are dropped and counted (law 11). The rest of the queue is for messages about our own peers, which a
/// flood of handshakes must not keep from the agent.
const HANDSHAKES: usize = 128;

/// Makes both queues. `agent` is woken for each message of the lane, `lane` when the agent asks for it.
pub fn queues(agent: Waker, lane: Waker) -> (AgentEnd, LaneEnd) {
    let (to_lane, commands) = channel(COMMANDS);
    let (to_agent, messages) = channel(MESSAGES);
    let handshakes = Arc::new(AtomicUsize::new(0));
    let agent_end = AgentEnd { to_lane, messages, handshakes: Arc::clone(&handshakes), lane };
    let lane_end = LaneEnd { commands, to_agent, handshakes, agent };
    (agent_end, lane_end)
}

/// The agent's end of both queues.
pub struct AgentEnd {
    to_lane: Sender<ToLane>,
    messages: Receiver<FromLane>,
    handshakes: Arc<AtomicUsize>,
    lane: Waker,
}

impl AgentEnd {
    /// Sends a command, or returns it as an error if the queue is full or the lane has ended: the agent tries again later.
    ///
    /// # Errors
    /// The command, if it was not sent.
    #[expect(
        clippy::result_large_err,
        reason = "the command is returned to be sent again; boxing would allocate for each"
    )]
    pub fn send(&self, command: ToLane) -> Result<(), ToLane> {
        match self.to_lane.try_send(command) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) => Err(command),
        }
    }

    /// Wakes the lane. Several commands need this once.
    pub fn wake(&self) {
        self.lane.wake();
    }

    /// Returns the next message of the lane.
    pub fn receive(&self) -> Option<FromLane> {
        let message = self.messages.try_recv().ok()?;
        if matches!(message, FromLane::Handshake { .. }) {
            self.handshakes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(message)
    }
}

/// The lane's end of both queues.
pub struct LaneEnd {
    commands: Receiver<ToLane>,
    to_agent: Sender<FromLane>,
    /// Handshake messages in the queue.
    handshakes: Arc<AtomicUsize>,
    agent: Waker,
}

impl LaneEnd {
    /// Returns the next command, if one waits.
    pub fn command(&self) -> Option<ToLane> {
        self.commands.try_recv().ok()
    }

    /// Sends a message to the agent, or returns it as an error if there is no room. Messages to an agent that has ended are dropped.
    ///
    /// # Errors
    /// The message, if there is no room for it.
    #[expect(
        clippy::result_large_err,
        reason = "the message is returned to be sent again; boxing would allocate for each"
    )]
    pub fn send(&self, message: FromLane) -> Result<(), FromLane> {
        let handshake = matches!(message, FromLane::Handshake { .. });
        if handshake && self.handshakes.load(Ordering::Relaxed) >= HANDSHAKES {
            return Err(message);
        }
        // Counted before it is in the queue, because the agent subtracts as soon as it takes the message out.
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

    /// Wakes the agent.
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
    fn fault_b2_handshakes_fill_half_of_the_queue_and_messages_about_our_peers_the_rest() {
        let (agent, lane) = ends();
        let taken = (0..1_000).take_while(|_| lane.send(handshake()).is_ok()).count();
        assert_eq!(taken, 128);
        let ours = (0..1_000).take_while(|_| lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok()).count();
        assert_eq!(ours, 128, "messages about our own peers still have room");
        assert_eq!(lane.send(handshake()), Err(handshake()), "the message is returned");
        assert!(agent.receive().is_some());
        assert_eq!(lane.send(handshake()), Ok(()), "one was taken out, so another has room");
    }

    #[test]
    fn refused_handshakes_do_not_count_against_their_limit() {
        let (agent, lane) = ends();
        for _ in 0..3 {
            while lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok() {}
            // Refused because the whole queue is full. If they counted, there would be no room for handshakes ever again.
            for _ in 0..200 {
                assert_eq!(lane.send(handshake()), Err(handshake()));
            }
            while agent.receive().is_some() {}
            assert_eq!((0..1_000).take_while(|_| lane.send(handshake()).is_ok()).count(), 128);
            while agent.receive().is_some() {}
        }
    }

    #[test]
    fn messages_to_an_agent_that_has_ended_are_dropped() {
        let (agent, lane) = ends();
        drop(agent);
        assert!((0..1_000).all(|_| lane.send(FromLane::WantsHandshake(PeerId(1))).is_ok()));
    }
}
