//! How the daemon comes to a helper: by a service manager's socket, or as a process of its own. Again, if it ends before the daemon does.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use taut_base::Time;

/// Socket of a service manager that starts helpers itself, one per connection. The daemon's own service may then be confined to what packets need.
const SERVICE: &str = "/run/taut-dns-helper.sock";
/// Pause before the first new helper, 2 s; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two attempts, 60 s. A helper that ran so long begins with the first pause again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A helper: the process if it is a child of this one, and the socket to it.
pub(super) type Started = (Option<Child>, UnixStream);

/// Starts helpers.
pub(super) struct Launch {
    program: PathBuf,
    /// Whether the helper is a process of the daemon's own; `None` until there was one.
    spawns: Option<bool>,
    pause: Duration,
    /// Time of the last attempt.
    last: Time,
    /// Time of the next one, if a helper is missing.
    pub(super) due: Option<Time>,
}

impl Launch {
    pub(super) fn new(program: &Path) -> Self {
        Self { program: program.into(), spawns: None, pause: FIRST_PAUSE, last: Time(0), due: None }
    }

    /// Starts a helper, in the way in which the first one was started.
    pub(super) fn start(&mut self, now: Time) -> io::Result<Started> {
        (self.last, self.due) = (now, None);
        // A sandbox of the daemon has to leave it one of the two: this socket, or the right to run its own program with the rights that the helper needs.
        let started = match self.spawns {
            Some(true) => spawn(&self.program),
            Some(false) => connect(),
            None => connect().or_else(|_| spawn(&self.program)),
        };
        match &started {
            Ok((child, _)) => self.spawns = Some(child.is_some()),
            Err(_) => self.retry(now),
        }
        started
    }

    /// Has a new helper be started after a pause.
    pub(super) fn retry(&mut self, now: Time) {
        if now.since(self.last) >= LONGEST_PAUSE {
            self.pause = FIRST_PAUSE;
        }
        self.due = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

fn connect() -> io::Result<Started> {
    let stream = UnixStream::connect(SERVICE)?;
    stream.set_nonblocking(true)?;
    Ok((None, stream))
}

fn spawn(program: &Path) -> io::Result<Started> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let theirs = OwnedFd::from(theirs);
    let child = Command::new(program)
        .arg(super::hook::VERB)
        .env_clear()
        .env("LANG", "C")
        .current_dir("/")
        .stdin(theirs.try_clone()?)
        .stdout(theirs)
        .spawn()?;
    Ok((Some(child), ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_h3_the_pause_doubles_until_a_helper_stays() {
        let mut launch = Launch::new(Path::new("/nonexistent/taut"));
        launch.spawns = Some(true);
        let (mut now, mut pauses) = (Time::from_duration(Duration::from_secs(100)), Vec::new());
        for _ in 0..7 {
            assert!(launch.start(now).is_err());
            let due = launch.due.unwrap();
            pauses.push(due.since(now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        launch.program = PathBuf::from("/bin/true");
        let (child, _stream) = launch.start(now).unwrap();
        child.unwrap().wait().unwrap();
        assert_eq!(launch.due, None);
        launch.retry(now + LONGEST_PAUSE);
        assert_eq!(launch.due.unwrap().since(now + LONGEST_PAUSE), FIRST_PAUSE);
    }
}
