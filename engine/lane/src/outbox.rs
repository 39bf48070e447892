//! Messages of a lane to the agent that wait for room in the agent's queue.

use std::collections::VecDeque;
use std::sync::Arc;

use taut_node::FromLane;

use crate::drops::{DropCounts, DropReason};

/// Messages that may wait while the agent does not read its queue. Beyond this bound, messages that the lane repeats anyway are dropped. Others, such as a
/// session's end, are always kept: there are few of them.
const MAX_MESSAGES: usize = 1024;

/// The messages that wait, oldest first. Handshake messages are not among them: they wait in [`Ingress`](crate::ingress::Ingress).
pub(crate) struct Outbox {
    messages: VecDeque<FromLane>,
    drops: Arc<DropCounts>,
}

impl Outbox {
    pub(crate) fn new(drops: Arc<DropCounts>) -> Self {
        Self { messages: VecDeque::new(), drops }
    }

    /// Appends a message. While [`MAX_MESSAGES`] wait, a message that will be repeated is dropped and counted instead.
    pub(crate) fn push(&mut self, message: FromLane) {
        let repeated = matches!(
            message,
            FromLane::WantsHandshake(_)
                | FromLane::Moved { .. }
                | FromLane::Control { .. }
                | FromLane::Arrived { .. }
                | FromLane::Active { .. }
                | FromLane::LongLost { .. }
                | FromLane::Datagram { .. }
                | FromLane::Question(_)
                | FromLane::Load(_)
        );
        if repeated && self.messages.len() >= MAX_MESSAGES {
            self.drops.add(DropReason::AgentBusy, 1);
        } else {
            self.messages.push_back(message);
        }
    }

    /// Puts a message back in front that the agent's queue had no room for.
    pub(crate) fn put_back(&mut self, message: FromLane) {
        self.messages.push_front(message);
    }

    /// Returns the next message for the agent.
    pub(crate) fn poll_output(&mut self) -> Option<FromLane> {
        self.messages.pop_front()
    }

    /// Returns true if no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
