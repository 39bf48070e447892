//! `taut up`: joins, connects, starts a daemon where none runs, and waits until packets flow.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_agent::api::{LeaveState, Request, State, Status};
use taut_netmap::{check_new_name, name_from_host};

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{DaemonFlags, Word, Words, daemon_details, unexpected};
use crate::{launch, output, status, table, token};

pub(crate) const ARGUMENTS: &str = "[--join TOKEN] [--hostname NAME] [--timeout TIME] [--json] [daemon flags]";

pub(crate) const DETAILS: &str = concat!(
    "Starts a daemon when none answers, and returns when packets can flow. The token is needed once per node.\n\n",
    "--join TOKEN       join with this token; file:PATH reads it from a file, - from stdin\n",
    "--auth-key TOKEN   the same (environment: TAUT_AUTHKEY)\n",
    "--hostname NAME    name in the network (default: that of the host); capitals and `_` are replaced. A member is not renamed by it\n",
    "--timeout TIME     stop waiting after this long (default 60s); the daemon goes on trying\n",
    "--json             print the status object once connected\n\n",
    "Exit status: 0 when packets can flow, 1 otherwise.\n\n",
    "Flags of the daemon that is started; one that runs already keeps its own:\n",
    daemon_details!()
);

/// How often to look how far the daemon is.
const LOOK: Duration = Duration::from_millis(50);
/// After this long without success the user is told what is being waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// The daemon needs a moment to hear its own disk and the coordinator about a token; before that, an old state would be read as the answer.
const SETTLE: Duration = Duration::from_millis(200);

/// Time to wait for the coordinator's first answer while the network is up already, 2 s: it takes milliseconds, and tells a node that was removed. Without a
/// coordinator the last map serves.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

struct Wish {
    token: Option<String>,
    name: Option<String>,
    timeout: Duration,
    json: bool,
    daemon: DaemonFlags,
    /// Whether flags were given that only a new daemon can follow.
    for_new_daemon: bool,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let mut wish = parse(words)?;
    // From here on the token is what was read, not where it was read from.
    let given = wish.token.take().or_else(|| std::env::var("TAUT_AUTHKEY").ok().filter(|text| !text.is_empty()));
    wish.token = given.as_deref().map(token::read).transpose()?;
    let deadline = Instant::now() + wish.timeout;
    let (mut client, started) = match Client::connect(&wish.daemon.socket) {
        Ok(client) => {
            if wish.for_new_daemon {
                output::complain(
                    "taut: a daemon runs already and keeps its own flags; `taut down` and `taut up` change them",
                );
            }
            (client, false)
        }
        Err(NoDaemon::Absent) => {
            launch::check_host()?;
            (launch::start(&wish.daemon, deadline)?, true)
        }
        Err(denied) => return Err(denied.explain(&wish.daemon.socket)),
    };
    let former = if wish.token.is_some() { client.status()?.me.map(|me| me.id) } else { None };
    let status = match connect(&mut client, &wish, deadline) {
        Ok(status) => status,
        Err(early) => {
            if started && !early.goes_on {
                // A daemon that cannot come up serves nobody: it would only hold the state directory.
                client.end();
            }
            return Err(early.fault);
        }
    };
    match (former, status.me.as_ref().map(|me| me.id)) {
        (Some(former), Some(id)) if former == id => {
            output::complain("taut: this node is a member of that network already; the token was not needed");
        }
        (Some(_), Some(_)) => {
            output::complain("taut: the coordinator did not know this node any more; it joined as a new one");
        }
        _ => {}
    }
    if status.coordinator.as_ref().is_some_and(|coordinator| !coordinator.connected) {
        output::complain(&format!("taut: {}; the last network map is in use", waiting_for(&status)));
    }
    for warning in &status.warnings {
        output::complain(&format!("taut: {warning}"));
    }
    match wish.json {
        true => output::print_json(&*status),
        false => output::print(&summary(&status)),
    }
}

fn parse(mut words: Words) -> Result<Wish, Fault> {
    let mut wish = Wish {
        token: None,
        name: None,
        timeout: Duration::from_secs(60),
        json: false,
        daemon: DaemonFlags::from_environment(),
        for_new_daemon: false,
    };
    while let Some(word) = words.next()? {
        let Word::Flag(flag) = &word else { return Err(unexpected(&word)) };
        match flag.as_str() {
            "--join" | "--auth-key" => wish.token = Some(given_token(words.value()?)?),
            "--hostname" => wish.name = Some(name(&words.value()?)?),
            "--timeout" => wish.timeout = words.time(flag)?,
            "--json" => wish.json = true,
            "--socket" => wish.daemon.socket = PathBuf::from(words.value()?),
            _ if wish.daemon.take(flag, &mut words)? => wish.for_new_daemon = true,
            _ => return Err(unexpected(&word)),
        }
    }
    Ok(wish)
}

/// Returns what stands for a token. A flag is none: it follows `--join` where a shell's variable was empty.
fn given_token(text: String) -> Result<String, Fault> {
    match text.starts_with("--") {
        true => Err(Fault::usage(format!("`{text}` is no join token; --join and --auth-key want one behind them"))),
        false => Ok(text),
    }
}

/// Returns the name as the network spells it: in small letters, with hyphens for `_`, as with the host's own name. All else is refused.
fn name(text: &str) -> Result<String, Fault> {
    let name = text.trim().to_ascii_lowercase().replace('_', "-");
    let refused = |why: String| Fault::usage(format!("--hostname {text}: {why}"));
    match check_new_name(&name) {
        Ok(()) => Ok(name),
        Err(_) if name.contains('.') => {
            Err(refused(format!("a name has no dots; `{}` would do", name_from_host(&name))))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Why `taut up` ended without a connection.
struct Early {
    fault: Fault,
    /// Whether the daemon goes on trying.
    goes_on: bool,
}

impl<F: Into<Fault>> From<F> for Early {
    fn from(fault: F) -> Self {
        Self { fault: fault.into(), goes_on: false }
    }
}

/// Tells the daemon, and waits until packets can flow.
fn connect(client: &mut Client, wish: &Wish, deadline: Instant) -> Result<Box<Status>, Early> {
    let joins = wish.token.is_some();
    let request = Request::Up { join: wish.token.clone(), name: wish.name.clone() };
    if !client.change(&request)? {
        return Err(Fault::failed("the daemon ended meanwhile", "try again").into());
    }
    let begin = Instant::now();
    let mut told = false;
    loop {
        if joins && begin.elapsed() < SETTLE {
            std::thread::sleep(LOOK);
            continue;
        }
        let status = client.status()?;
        if status.leave.as_ref().is_some_and(|leave| leave.state != LeaveState::Failed) {
            let fault = Fault::failed(
                "this node gives up its membership: `taut leave` was run meanwhile",
                "`taut status` shows how far it is; join again with `taut up --join TOKEN`",
            );
            // `taut leave` ends the daemon once the coordinator was told.
            return Err(Early { fault, goes_on: true });
        }
        if let Some(problem) = &status.problem
            && (joins || status.state != State::Running)
        {
            return Err(problem.clone().into());
        }
        if status.state == State::Running && (has_asked(&status) || begin.elapsed() >= FIRST_ANSWER) {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            let hint = "the daemon goes on trying; `taut status` shows how far it is";
            return Err(Early { fault: Fault::failed(waiting_for(&status), hint), goes_on: true });
        }
        if !told && begin.elapsed() >= PATIENCE {
            told = true;
            output::complain(&format!("{} …", waiting_for(&status)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns true if the coordinator has answered, or could not be reached.
fn has_asked(status: &Status) -> bool {
    status.coordinator.as_ref().is_none_or(|coordinator| coordinator.connected || coordinator.last_error.is_some())
}

fn waiting_for(status: &Status) -> String {
    match &status.coordinator {
        Some(coordinator) => match &coordinator.last_error {
            Some(error) => format!("the coordinator was not reached yet ({error})"),
            None => format!("waiting for the coordinator at {}", coordinator.url),
        },
        None => String::from("waiting for the daemon"),
    }
}

/// What a user wants to know first.
fn summary(status: &Status) -> String {
    let peers = table::counted(status.peers.len(), "peer");
    let Some(me) = &status.me else { return format!("up  {peers}") };
    let line = format!("{}  {}  {peers}", me.name, status::join(&me.addresses));
    match &me.ports_taken[..] {
        [] => line,
        taken => format!("{line}\nUDP port {}{}", me.port, status::taken(taken)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn wish(line: &str) -> Result<Wish, Fault> {
        parse(Words::new(line.split_whitespace().map(OsString::from)))
    }

    #[test]
    fn flags_of_both_kinds() {
        let both = wish("--auth-key file:/t --hostname a-1 --timeout 5s --socket /s --mtu 1300").unwrap();
        assert_eq!((both.token.as_deref(), both.name.as_deref()), (Some("file:/t"), Some("a-1")));
        assert_eq!((both.timeout, both.daemon.mtu), (Duration::from_secs(5), 1300));
        assert!(both.for_new_daemon);
        assert!(!wish("--join - --socket /s").unwrap().for_new_daemon, "the socket tells which daemon is meant");
        for (given, name) in [("MyLaptop", "mylaptop"), ("my_NAS-2", "my-nas-2"), (" web", "web")] {
            assert_eq!(self::name(given).unwrap(), name);
        }
        match name("Web.example.org") {
            Err(Fault::Usage { message, .. }) => assert!(message.ends_with("`web` would do"), "{message}"),
            other => panic!("{other:?}"),
        }
        let odd = ["--hostname A.B", "--hostname localhost", "--hostname -a", "--hostname ä"];
        for line in odd.into_iter().chain(["--timeout soon", "--join", "please", "--fast"]) {
            assert!(matches!(wish(line), Err(Fault::Usage { .. } | Fault::UnknownFlag(_))), "{line}");
        }
    }

    #[test]
    fn an_answer_and_an_error_both_end_the_wait_for_the_coordinator() {
        let mut status = status::sample();
        let mut asked = |connected, error: Option<&str>| {
            if let Some(coordinator) = &mut status.coordinator {
                (coordinator.connected, coordinator.last_error) = (connected, error.map(String::from));
            }
            has_asked(&status)
        };
        assert!(asked(true, None) && asked(false, Some("refused")) && !asked(false, None));
    }

    #[test]
    fn one_line_says_it_is_up() {
        let mut status = status::sample();
        assert_eq!(summary(&status), "n1  100.64.0.1 fd00::1  2 peers");
        if let Some(me) = &mut status.me {
            (me.port, me.ports_taken) = (40_000, vec![8288]);
        }
        assert_eq!(summary(&status), "n1  100.64.0.1 fd00::1  2 peers\nUDP port 40000 (another program has 8288)");
    }
}
