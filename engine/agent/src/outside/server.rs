//! The process: one loop that passes sockets on, and a thread for each question, because resolvers may be slow.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use taut_event::{Signal, Signals, new_session, receive_descriptor, send_descriptor};

use super::{FILE, HELPER, HELPER_VERB, LONGEST_QUESTION, NAME, QUESTION, ServerFile};
#[cfg(feature = "userspace")]
use super::{USERSPACE, USERSPACE_STREAM, userspace};

/// Socket of a service manager that starts helpers itself, one per connection. The daemon's own service may then be confined to what packets need.
const SERVICE: &str = "/run/taut-dns-helper.sock";
/// Questions at once, 192: an exit node asks for the host's servers for each of 128 questions of its peers, and one is asked per coordinator and relay that is dialled. Others
/// are refused.
const MOST_QUESTIONS: usize = 192;
/// Helpers at once, 2: one that ends, and its successor. The daemon has one.
const MOST_HELPERS: usize = 2;
/// Longest wait for the rest of a question, 10 s: a busy host takes a while between two steps of the daemon.
const PATIENCE: Duration = Duration::from_secs(10);
/// Stack of a thread that answers, 1 MiB: libc's resolver and its modules take 100 KiB and more. Only what is used takes memory.
const STACK: usize = 1024 * 1024;
/// Stack of a thread that waits for a process to end, 64 KiB.
const WAITING_STACK: usize = 64 * 1024;

/// A helper: the process if it is a child of this one, and the socket to it.
pub(crate) type Started = (Option<Child>, UnixStream);

/// Starts helpers in the way in which the first one was started.
pub(crate) struct HelperLaunch {
    program: PathBuf,
    /// Whether the helper is a child of this process; `None` until there was one.
    spawns: Option<bool>,
}

impl HelperLaunch {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.into(), spawns: None }
    }

    /// Leaves the service manager's socket of the host alone.
    #[cfg(test)]
    pub(crate) fn always_spawn(&mut self) {
        self.spawns = Some(true);
    }

    /// Starts a helper: by the service manager's socket, or as a process of the own program.
    pub(crate) fn start(&mut self) -> io::Result<Started> {
        let started = match self.spawns {
            Some(true) => self.spawn(),
            Some(false) => connect(),
            None => connect().or_else(|_| self.spawn()),
        };
        if let Ok((child, _)) = &started {
            self.spawns = Some(child.is_some());
        }
        started
    }

    fn spawn(&self) -> io::Result<Started> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let theirs = OwnedFd::from(theirs);
        let child = Command::new(&self.program)
            .arg(HELPER_VERB)
            .env_clear()
            .env("LANG", "C")
            .current_dir("/")
            .stdin(theirs.try_clone()?)
            .stdout(theirs)
            .spawn()?;
        Ok((Some(child), ours))
    }
}

fn connect() -> io::Result<Started> {
    let stream = UnixStream::connect(SERVICE)?;
    stream.set_nonblocking(true)?;
    Ok((None, stream))
}

/// Runs the process until the daemon ends. Its standard input is the socket to the daemon.
///
/// # Errors
/// If standard input is no such socket. `program` is this program, for helpers.
pub fn run_outside(program: &Path) -> io::Result<()> {
    // A terminal's Ctrl-C and a closed terminal are for the daemon. This fails only for a process that leads its group already.
    let _ = new_session();
    // A service manager signals all processes of a service, and the daemon, which may need names until its end, is to end first.
    let _signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])?;
    let daemon = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Anything but a socket has no address.
    daemon.local_addr()?;
    let mut launch = HelperLaunch::new(program);
    let (questions, helpers) = (Arc::new(()), Arc::new(()));
    #[cfg(feature = "userspace")]
    let (stacks, mut stream) = (Arc::new(()), None);
    loop {
        let answer = match receive_descriptor(&daemon) {
            Ok((HELPER, _)) => helper(&mut launch, &helpers),
            Ok((QUESTION, _)) => question(&questions),
            #[cfg(feature = "userspace")]
            Ok((USERSPACE, _)) => stack(program, &stacks).map(|started| {
                stream = Some(started.stream);
                UnixStream::from(started.device)
            }),
            #[cfg(feature = "userspace")]
            Ok((USERSPACE_STREAM, _)) => stream.take().ok_or_else(|| io::ErrorKind::NotConnected.into()),
            Ok(_) => Err(io::Error::from(io::ErrorKind::InvalidInput)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match answer {
            Ok(socket) => send_descriptor(&daemon, 0, Some(socket.as_fd()))
                // The kernel may have no room for a descriptor on its way: that ends one question, and not all.
                .or_else(|error| send_descriptor(&daemon, code(&error), None))?,
            Err(error) => send_descriptor(&daemon, code(&error), None)?,
        }
    }
}

/// Starts a helper, unless there are enough: `helpers` is held once more for each.
fn helper(launch: &mut HelperLaunch, helpers: &Arc<()>) -> io::Result<UnixStream> {
    if Arc::strong_count(helpers) > MOST_HELPERS {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let (child, socket) = launch.start()?;
    if let Some(mut child) = child {
        let place = Arc::clone(helpers);
        // Its end frees its number. The daemon sees it by the socket.
        thread::Builder::new().stack_size(WAITING_STACK).spawn(move || {
            let _ = child.wait();
            drop(place);
        })?;
    }
    Ok(socket)
}

/// Starts a `taut-userspace`, unless there are enough: `stacks` is held once more for each.
#[cfg(feature = "userspace")]
fn stack(program: &Path, stacks: &Arc<()>) -> io::Result<userspace::Started> {
    if Arc::strong_count(stacks) > MOST_HELPERS {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    userspace::start_with(program, Arc::clone(stacks))
}

/// Returns the number of an error, which is never 0.
fn code(error: &io::Error) -> u8 {
    const EIO: u8 = 5;
    error.raw_os_error().and_then(|number| u8::try_from(number).ok()).filter(|number| *number != 0).unwrap_or(EIO)
}

/// Returns a socket that takes a question, which a thread answers.
fn question(questions: &Arc<()>) -> io::Result<UnixStream> {
    if Arc::strong_count(questions) > MOST_QUESTIONS {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let (theirs, mut ours) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    ours.set_write_timeout(Some(PATIENCE))?;
    let place = Arc::clone(questions);
    thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut text = String::new();
        let read = (&ours).take(LONGEST_QUESTION as u64).read_to_string(&mut text);
        // A daemon that breaks off gets no answer.
        let _ = read.and_then(|_| ours.write_all(answer(&text).as_bytes()));
        drop(place);
    })?;
    Ok(theirs)
}

fn answer(question: &str) -> String {
    match *question.split(' ').collect::<Vec<_>>() {
        [NAME, port, host] => addresses(host, port.parse().unwrap_or_default()),
        [FILE, number] => {
            let file = ServerFile::ALL.into_iter().find(|file| (*file as u8).to_string() == number);
            file.map_or_else(String::new, |file| with_numbers(&file.read()))
        }
        _ => String::new(),
    }
}

/// Returns the addresses of a host, or the reason behind a `!`.
fn addresses(host: &str, port: u16) -> String {
    match taut_control::look_up(host, port) {
        Ok(found) => found.iter().fold(String::new(), |mut text, address| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{address} ");
            text
        }),
        Err(reason) => format!("!{reason}"),
    }
}

/// Has interfaces behind link-local addresses appear by number: the daemon cannot read the numbers of names.
fn with_numbers(text: &str) -> String {
    let line = |line: &str| {
        let (address, name) = line.split_once('%')?;
        let name = name.split_whitespace().next()?;
        let index = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
        Some(format!("{address}%{}\n", index.trim()))
    };
    text.lines().map(|whole| line(whole).unwrap_or_else(|| format!("{whole}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use super::*;

    #[test]
    fn a_question_gets_what_programs_of_this_host_find_and_nothing_else() {
        let found: Vec<SocketAddr> =
            answer("name 80 localhost").split_whitespace().map(|text| text.parse().unwrap()).collect();
        assert!(found.contains(&SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80)), "{found:?}");
        // No such name exists (RFC 6761, section 6.4).
        assert!(answer("name 80 outside.invalid").starts_with('!'));
        assert_eq!(answer("file 0"), with_numbers(&ServerFile::ResolvConf.read()));
        for other in ["", "file 3", "file /etc/shadow", "file 0 ", "run ls", "name 80"] {
            assert_eq!(answer(other), "", "{other}");
        }
    }

    #[test]
    fn interfaces_get_their_numbers() {
        let text = "nameserver fe80::1%lo # router\nnameserver fe80::1%none\nsearch a\n";
        assert_eq!(with_numbers(text), "nameserver fe80::1%1\nnameserver fe80::1%none\nsearch a\n");
    }

    #[test]
    fn helpers_at_once_are_bounded() {
        // A program that writes until nobody reads: it ends when its socket is closed, as a helper does.
        let mut launch = HelperLaunch::new(Path::new("/usr/bin/yes"));
        launch.always_spawn();
        let helpers = Arc::new(());
        let open: Vec<UnixStream> = (0..MOST_HELPERS).map(|_| helper(&mut launch, &helpers).unwrap()).collect();
        assert_eq!(helper(&mut launch, &helpers).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(open);
        while Arc::strong_count(&helpers) > 1 {
            thread::yield_now();
        }
        helper(&mut launch, &helpers).unwrap();
    }

    #[test]
    fn questions_at_once_are_bounded() {
        let questions = Arc::new(());
        let open: Vec<UnixStream> = (0..MOST_QUESTIONS).map(|_| question(&questions).unwrap()).collect();
        assert_eq!(question(&questions).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(open);
        while Arc::strong_count(&questions) > 1 {
            thread::yield_now();
        }
        question(&questions).unwrap();
    }
}
