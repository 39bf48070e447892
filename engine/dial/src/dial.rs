//! One attempt to open a channel, on a thread of its own, because resolvers and distant hosts may be slow.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use taut_base::{PublicKey, SAFE_PACKET, SOCKET_MARK};
use taut_event::{Receiver, Sender, Waker, channel, connect_tcp};

use crate::answer::shown_key;
use crate::broken::Broken;
use crate::names::resolve;
use crate::scheme::WITHOUT_TLS;
use crate::sealed_channel::{ChannelTarget, NotOpened, SealedChannel};
use crate::stream::{ANSWER_TIMEOUT, Stream};
use crate::tls::Authorities;
use crate::url::Url;

/// Time limit for connecting to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An attempt under way. Dropping it cancels it.
pub struct Dial {
    outcome: Receiver<Result<SealedChannel, Broken>>,
    cancel: Arc<Cancel>,
}

/// The stage of an attempt, for its cancellation.
#[derive(Default)]
pub struct Cancel(Mutex<Stage>);

/// A stage of an attempt, or of a connection in use.
#[derive(Default)]
pub enum Stage {
    /// Nothing to shut down: resolving, connecting, or done.
    #[default]
    Detached,
    /// Shaking hands on this socket, or using it.
    Connected(TcpStream),
    /// The attempt was cancelled.
    Cancelled,
}

impl Dial {
    /// Starts an attempt at `url`, whose host had the addresses `known` at the last connection. `waker` is woken when [`Self::take`] has its outcome.
    pub fn start(url: String, known: Vec<IpAddr>, target: ChannelTarget, waker: Waker) -> io::Result<Self> {
        let (sender, outcome) = channel(1);
        let cancel = Arc::new(Cancel::default());
        let shared = Arc::clone(&cancel);
        thread::Builder::new().name(String::from("taut-dial")).spawn(move || {
            report(
                &sender,
                &waker,
                attempt(&url, &known, &target, &shared).map_err(|broken| Broken(format!("{url}: {broken}"))),
            );
        })?;
        Ok(Self { outcome, cancel })
    }

    /// Returns the outcome once it is known, which ends the attempt.
    pub fn take(&self) -> Option<Result<SealedChannel, Broken>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Broken(String::from("the attempt ended without an outcome")))),
        }
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Cancel {
    fn lock(&self) -> std::sync::MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the attempt, and ends a blocking call of its thread.
    pub fn cancel(&self) {
        let stage = std::mem::replace(&mut *self.lock(), Stage::Cancelled);
        if let Stage::Connected(socket) = stage {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Returns true if the attempt was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.lock(), Stage::Cancelled)
    }

    /// Sets the next stage, unless the attempt was cancelled.
    pub fn advance(&self, next: Stage) -> Result<(), Broken> {
        let mut stage = self.lock();
        if matches!(*stage, Stage::Cancelled) {
            return Err(Broken(String::from("cancelled")));
        }
        *stage = next;
        Ok(())
    }
}

fn report(sender: &Sender<Result<SealedChannel, Broken>>, waker: &Waker, outcome: Result<SealedChannel, Broken>) {
    // Sending fails only after a cancellation, when no receiver waits for the outcome.
    let _ = sender.send(outcome);
    waker.wake();
}

fn attempt(url: &str, known: &[IpAddr], target: &ChannelTarget, cancel: &Cancel) -> Result<SealedChannel, Broken> {
    let url: Url = url.parse().map_err(|error| Broken(format!("{error}")))?;
    check_scheme(&url)?;
    let addresses = resolve(&url.host, url.port, known)?;
    let mut last = Broken(String::from("its name has no address"));
    for address in &addresses {
        match attempt_address(*address, &url, target, cancel) {
            Ok(mut channel) => {
                channel.set_addresses(&addresses);
                // The channel now belongs to the caller of `take`; a cancellation must not shut it down.
                cancel.advance(Stage::Detached)?;
                return Ok(channel);
            }
            Err(broken) => last = broken,
        }
        cancel.advance(Stage::Detached)?;
    }
    Err(last)
}

fn attempt_address(
    address: SocketAddr,
    url: &Url,
    target: &ChannelTarget,
    cancel: &Cancel,
) -> Result<SealedChannel, Broken> {
    match SealedChannel::open(connect(address, url, cancel)?, url, target) {
        Ok(channel) => Ok(channel),
        Err(NotOpened::Broken(broken)) => Err(broken),
        Err(NotOpened::Handshake(broken)) => {
            // A cancellation ends the handshake, too, and nobody asks for its reason.
            cancel.advance(Stage::Detached)?;
            let shown = connect(address, url, cancel).and_then(|stream| shown_key(stream, url, target.key_path));
            // A server that could not be asked may have the right key: then the connection was lost, and no more is known.
            Err(match shown {
                Ok(shown) => explain_handshake(broken, shown, target),
                Err(_) => broken,
            })
        }
    }
}

/// Refuses an https URL in a build without TLS, before anything is sent to its host.
///
/// # Errors
/// [`WITHOUT_TLS`] as one text.
pub fn check_scheme(url: &Url) -> Result<(), Broken> {
    match url.secure && !cfg!(feature = "tls") {
        true => Err(Broken(WITHOUT_TLS.join(": "))),
        false => Ok(()),
    }
}

/// Explains a handshake that the server did not finish, by the key that it shows, or by its answer that shows none. Nobody vouches for that key: it only explains.
fn explain_handshake(broken: Broken, shown: Option<PublicKey>, target: &ChannelTarget) -> Broken {
    let ChannelTarget { coordinator, key_source, .. } = target;
    Broken(match shown {
        Some(shown) if shown != *coordinator => format!(
            "the server at this URL does not have the coordinator's key of {key_source}: it shows {shown}, and expected is {coordinator}; \
             compare both with what `taut-coordinator devices invite` prints on the coordinator: the given key may be of another coordinator; \
             if it is not, somebody in between answers"
        ),
        Some(_) => return broken,
        None => String::from(target.wrong_server),
    })
}

/// Connects to one address of the URL's host. The stream blocks, with a timeout. Its segments are as short as packets on a path of unknown MTU: a path that loses
/// longer packets without an error would otherwise keep every larger message from this node, and the kernel takes a minute to try shorter segments, if at all (fault
/// I1). The control channel carries little; on a bridge the headers take 4 % more.
pub fn connect(address: SocketAddr, url: &Url, cancel: &Cancel) -> Result<Stream, Broken> {
    check_scheme(url)?;
    let named = url.host.parse::<IpAddr>().is_err();
    let describe = |error: io::Error| Broken(if named { format!("{address}: {error}") } else { error.to_string() });
    let socket = connect_tcp(address, SAFE_PACKET, CONNECT_TIMEOUT, SOCKET_MARK).map_err(describe)?;
    socket.set_nodelay(true).map_err(describe)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(describe)?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(describe)?;
    cancel.advance(Stage::Connected(socket.try_clone().map_err(describe)?))?;
    Stream::new(socket, url).map_err(describe)
}

/// Connects to the first address of the URL's host that answers. The stream blocks, with a timeout. With `authorities`, the certificate of an https server has to
/// be valid for the host.
pub(crate) fn connect_verified(url: &Url, authorities: Option<&Authorities>) -> Result<Stream, Broken> {
    let mut last = Broken(String::from("its name has no address"));
    for address in resolve(&url.host, url.port, &[])? {
        let connected = connect_tcp(address, SAFE_PACKET, CONNECT_TIMEOUT, SOCKET_MARK).and_then(|socket| {
            socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
            Stream::with_trust(socket, url, authorities.cloned())
        });
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Broken(format!("{address}: {error}")),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;
