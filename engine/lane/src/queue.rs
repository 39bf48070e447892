//! The bounded queues between keeper and lane.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use taut_event::Waker;
use taut_node::{FromLane, ToLane};

/// Commands that wait for a lane. A map of thousands of peers fills it; the keeper then goes on when there is room again.
const COMMANDS: usize = 1024;

/// Messages that wait for the keeper. Handshakes beyond are dropped and counted (law 11).
const MESSAGES: usize = 256;

/// Makes both queues. `keeper` is woken when a lane said something, `lane` when a command waits.
pub fn queues(keeper: Waker, lane: Waker) -> (KeeperEnd, LaneEnd) {
    let (to_lane, commands) = sync_channel(COMMANDS);
    let (to_keeper, messages) = sync_channel(MESSAGES);
    let keeper_end = KeeperEnd { to_lane, messages, lane };
    let lane_end = LaneEnd { commands, to_keeper, keeper };
    (keeper_end, lane_end)
}

/// The keeper's end.
pub struct KeeperEnd {
    to_lane: SyncSender<ToLane>,
    messages: Receiver<FromLane>,
    lane: Waker,
}

impl KeeperEnd {
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
        self.messages.try_recv().ok()
    }
}

/// The lane's end.
pub struct LaneEnd {
    commands: Receiver<ToLane>,
    to_keeper: SyncSender<FromLane>,
    keeper: Waker,
}

impl LaneEnd {
    /// The next command, if one waits.
    pub fn command(&self) -> Option<ToLane> {
        self.commands.try_recv().ok()
    }

    /// Tells the keeper; false when its queue is full.
    pub fn say(&self, message: FromLane) -> bool {
        let taken = self.to_keeper.try_send(message).is_ok();
        if taken {
            self.wake_keeper();
        }
        taken
    }

    /// Has the keeper look.
    pub(crate) fn wake_keeper(&self) {
        self.keeper.wake();
    }
}
