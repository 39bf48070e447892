//! The daemon's end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use taut_event::{receive_descriptor, send_descriptor};

use super::server::{HelperLaunch, Started};
use super::{FILE, HELPER, LONGEST_ANSWER, NAME, QUESTION, ServerFile, VERB};
#[cfg(feature = "userspace")]
use super::{USERSPACE, USERSPACE_STREAM, userspace};

/// Longest wait for a socket, and for the text of a file, 2 s: both take a millisecond unless the host has no memory left.
const SHORT: Duration = Duration::from_secs(2);
/// Longest wait for the addresses of a name, 60 s: longer than libc's resolver and three servers take together.
const LONG: Duration = Duration::from_secs(60);

/// The socket to the process.
struct Control {
    stream: UnixStream,
    /// Answers that did not come in time. They come before the next one.
    owed: u32,
}

/// It holds for all threads, as the sandbox does.
static OUTSIDE: OnceLock<Mutex<Control>> = OnceLock::new();

/// Starts the process, and has this one look names up there. It ends when this one does.
pub(crate) fn start(program: &Path) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(SHORT))?;
    // Nothing waits for it: it ends when this process does.
    Command::new(program).arg(VERB).current_dir("/").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
    let _ = OUTSIDE.set(Mutex::new(Control { stream: ours, owed: 0 }));
    taut_control::look_up_by(look_up);
    Ok(())
}

/// Asks for a socket; `None` if no process was started.
fn ask_for(what: u8) -> Option<io::Result<UnixStream>> {
    Some(OUTSIDE.get()?.lock().unwrap_or_else(PoisonError::into_inner).ask_for(what))
}

impl Control {
    /// Looks whether the other end of the socket is gone. While an answer is owed, the end of that wait tells.
    fn has_ended(&mut self) -> bool {
        if self.owed > 0 || self.stream.set_nonblocking(true).is_err() {
            return false;
        }
        // Nothing is owed, so there is nothing to read but the end.
        let read = self.stream.read(&mut [0]);
        let _ = self.stream.set_nonblocking(false);
        !matches!(read, Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted))
    }

    fn ask_for(&mut self, what: u8) -> io::Result<UnixStream> {
        while self.owed > 0 {
            // One thread has waited for this answer already. The others, among them the daemon's main thread, must not wait again.
            self.stream.set_nonblocking(true)?;
            let late = receive_descriptor(&self.stream);
            self.stream.set_nonblocking(false)?;
            late?;
            self.owed -= 1;
        }
        send_descriptor(&self.stream, what, None)?;
        self.owed += 1;
        let answer = receive_descriptor(&self.stream)?;
        self.owed -= 1;
        match answer {
            (0, Some(socket)) => Ok(UnixStream::from(socket)),
            (0, None) => {
                Err(io::Error::other("the answer came without its socket: this process may have too many open files"))
            }
            (error, _) => Err(io::Error::from_raw_os_error(error.into())),
        }
    }
}

/// Returns true if the process was started and has ended. Nothing starts it again: this process no longer may.
pub(crate) fn has_ended() -> bool {
    // A thread that waits for an answer holds the lock, and notices the end itself.
    OUTSIDE.get().is_some_and(|control| control.try_lock().is_ok_and(|mut control| control.has_ended()))
}

/// Asks a question; `None` if no process was started.
fn ask(question: &str, patience: Duration) -> Option<io::Result<String>> {
    let asked = |mut stream: UnixStream| {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(SHORT))?;
        stream.write_all(question.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.take(LONGEST_ANSWER as u64).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask_for(QUESTION).map(|socket| socket.and_then(asked))
}

/// Returns the text of a file with the host's servers; an empty one if it cannot be read.
pub(crate) fn text(file: ServerFile) -> String {
    let question = format!("{FILE} {}", file as u8);
    ask(&question, SHORT).map_or_else(|| file.read(), Result::unwrap_or_default)
}

/// Starts a process that sets up the host's resolver, there or, without a sandbox, here.
pub(crate) fn start_helper(launch: &mut HelperLaunch) -> io::Result<Started> {
    let Some(socket) = ask_for(HELPER) else { return launch.start() };
    let socket = socket?;
    socket.set_nonblocking(true)?;
    Ok((None, socket))
}

/// Starts a `taut-userspace`, there or, without a sandbox, here. Returns the socket for packets, and the stream beside it.
#[cfg(feature = "userspace")]
pub(crate) fn start_userspace(program: &Path) -> io::Result<(OwnedFd, UnixStream)> {
    match ask_for(USERSPACE) {
        None => userspace::start(program).map(|started| (started.device, started.stream)),
        Some(device) => {
            let stream = || ask_for(USERSPACE_STREAM).unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()));
            Ok((OwnedFd::from(device?), stream()?))
        }
    }
}

fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let asked = ask(&format!("{NAME} {port} {host}"), LONG).unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()));
    let answer = asked.map_err(|error| format!("the process `taut {VERB}` does not answer: {error}"))?;
    match answer.strip_prefix('!') {
        Some(reason) => Err(String::from(reason)),
        None => Ok(answer.split_whitespace().filter_map(|address| address.parse().ok()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_late_answer_is_not_taken_for_that_to_the_next_question() {
        let (ours, outside) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut control = Control { stream: ours, owed: 0 };
        assert_eq!(control.ask_for(HELPER).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(
            control.ask_for(QUESTION).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "nothing more is asked meanwhile"
        );
        let (helper, question) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        send_descriptor(&outside, 0, Some(helper.0.as_fd())).unwrap();
        send_descriptor(&outside, 0, Some(question.0.as_fd())).unwrap();
        let mut got = control.ask_for(QUESTION).unwrap();
        got.write_all(b"x").unwrap();
        let mut read = [0];
        (&question.1).read_exact(&mut read).unwrap();
        drop(helper);
        assert_eq!(&read, b"x");
        assert!(!control.has_ended());
        drop(outside);
        // A process that another test starts has a copy of the socket until it runs its own program.
        while !control.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(control.ask_for(QUESTION).is_err(), "the process has ended");
    }
}
