//! Another socket for a lane that runs: sessions go on, their peers hear from another port.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use taut_udp::UdpSocket;

/// How long the agent waits for a lane to take its socket: many of its turns. A lane that has ended never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The place where the agent puts the socket, and where the lane finds it.
#[derive(Debug, Default)]
pub(crate) struct Replacement {
    socket: Mutex<Option<UdpSocket>>,
    taken: Condvar,
}

impl Replacement {
    /// Offers the lane a socket, wakes it, and waits until it closed the former one: the port is free again then.
    pub(crate) fn offer(&self, socket: UdpSocket, wake: impl FnOnce()) {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(socket);
        wake();
        // Nothing hangs on the answer: a lane that is slow takes it later.
        let _ = self.taken.wait_timeout_while(place, PATIENCE, |place| place.is_some());
    }

    /// Gives the offered socket, if there is one, to `change`.
    pub(crate) fn take<E>(&self, change: impl FnOnce(UdpSocket) -> Result<(), E>) -> Result<(), E> {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let done = place.take().map_or(Ok(()), change);
        self.taken.notify_all();
        done
    }
}
