//! Another socket for a running lane. Its sessions stay; its peers hear from another port.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use taut_udp::UdpSocket;

/// Time for which the agent waits until a lane has taken its socket, 1 s: many of the lane's turns. A lane that has ended never takes it.
const TAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// The place where the agent puts the socket and the lane finds it.
#[derive(Debug, Default)]
pub(crate) struct Replacement {
    socket: Mutex<Option<UdpSocket>>,
    taken: Condvar,
}

impl Replacement {
    /// Offers the lane a socket, wakes the lane, and waits until it has closed its former socket, so that the former port is free again.
    pub(crate) fn offer(&self, socket: UdpSocket, wake: impl FnOnce()) {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(socket);
        wake();
        // The result does not matter: a slow lane takes the socket later.
        let _ = self.taken.wait_timeout_while(place, TAKE_TIMEOUT, |place| place.is_some());
    }

    /// Passes the offered socket to `change`, if there is one.
    pub(crate) fn take<E>(&self, change: impl FnOnce(UdpSocket) -> Result<(), E>) -> Result<(), E> {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let done = place.take().map_or(Ok(()), change);
        self.taken.notify_all();
        done
    }
}
