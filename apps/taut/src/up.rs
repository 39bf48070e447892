//! `taut up`: starts a daemon if none runs, joins, connects, and waits until packets can flow.

use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_agent::api::{
    ApiRequest, ApiResponse, CoordinatorPlace, Failure, LeaveState, NodeState, Status, WaitingStatus,
};
use taut_agent::settings::Origin;
use taut_base::qr_lines;
use taut_netmap::{JoinToken, check_new_name, name_from_host};

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{DaemonFlags, Word, Words, unexpected};
use crate::{coordinator, launch, output, ssh, status, table, token};

pub(crate) const ARGUMENTS: &str = "[--join TOKEN | --coordinator URL [--coordinator-key KEY]] [--hostname NAME] [--timeout TIME] [--json] [daemon flags]";

pub(crate) const DETAILS: &str = concat!(
    "Starts a daemon if none answers, and returns when packets can flow. A node needs a token once.\n\n",
    "--join TOKEN       join with this token; file:PATH reads it from a file, - from stdin\n",
    "--auth-key TOKEN   the same (environment: TAUT_AUTHKEY)\n",
    "--coordinator URL  without a token: show a link and a code, and wait until a person approves this host (environment: TAUT_COORDINATOR);\n",
    "                   a host that was a member needs no URL\n",
    "--coordinator-key KEY  with --coordinator: the coordinator's public key, which a plain http URL needs\n",
    "--hostname NAME    name in the network when it joins (default: the host name, with capitals and `_` replaced); does not rename a member\n",
    "--timeout TIME     longest wait (default 60s, 15m for a person); the daemon keeps trying after that\n",
    "--cut-ssh          let the kill switch end the ssh session in which this command runs\n",
    "--json             print the status object once connected\n\n",
    "Exit status: 0 if packets can flow, 1 otherwise.\n\n",
    "Flags of the daemon that it starts; a running daemon keeps its own, and `taut set` changes them:\n"
);

/// Time between two requests for the daemon's progress.
const POLL: Duration = Duration::from_millis(50);
/// Time without success after which the user learns what `taut up` waits for, 3 s: most connections take less.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
/// Time for which the state after a new token is not evaluated, 200 ms: the daemon first reads its disk and asks the coordinator.
const SETTLE: Duration = Duration::from_millis(200);

/// Longest wait for the coordinator's first answer if the network is already up, 2 s. The answer usually takes milliseconds, and shows whether the node was
/// removed. Without an answer the last map is used.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// Longest wait for a person, 15 min: the life of a request at the coordinator.
const FOR_A_PERSON: Duration = Duration::from_secs(15 * 60);

/// The parsed command line.
struct Options {
    token: Option<String>,
    coordinator: Option<String>,
    coordinator_key: Option<String>,
    /// The coordinator to ask, once its key is known.
    place: Option<CoordinatorPlace>,
    name: Option<String>,
    timeout: Duration,
    /// True if the user gave the timeout.
    has_timeout: bool,
    json: bool,
    daemon: DaemonFlags,
    /// True if there are flags that only a new daemon can use.
    for_new_daemon: bool,
    /// True if the kill switch may end this ssh session.
    cut_ssh: bool,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let mut options = parse(words)?;
    // Reads the token, which may be in a file or on stdin, so that `options.token` is its text.
    let given = options.token.take().or_else(|| std::env::var("TAUT_AUTHKEY").ok().filter(|text| !text.is_empty()));
    options.token = given.as_deref().map(token::read).transpose()?;
    if let Some(token) = options.token.as_deref().and_then(|text| text.parse::<JoinToken>().ok()) {
        coordinator::check(&token.urls)?;
    }
    let url =
        options.coordinator.take().or_else(|| std::env::var("TAUT_COORDINATOR").ok().filter(|url| !url.is_empty()));
    match url {
        Some(url) if options.token.is_none() => {
            options.place = Some(coordinator::find(&url, options.coordinator_key.as_deref())?);
        }
        None if options.coordinator_key.is_some() => {
            return Err(Fault::usage("--coordinator-key needs --coordinator URL"));
        }
        // The token has the URL and the key.
        _ => {}
    }
    let deadline = Instant::now() + options.timeout;
    // Whether the daemon ends if the command fails.
    let (mut client, may_end) = match Client::connect(&options.daemon.socket) {
        Ok(client) => {
            let mut client = client;
            if options.for_new_daemon {
                complain_of_flags(&mut client, &options.daemon);
            }
            (client, false)
        }
        Err(NoDaemon::Absent) => {
            launch::recall_userspace(&mut options.daemon)?;
            launch::check_host(&options.daemon.clone().resolve()?.config)?;
            check_session(&options)?;
            // `down` would end a kill switch that outlived the last daemon; a command that fails must not.
            let may_end = taut_control::saved_kill_switch(&options.daemon.state).is_none();
            let client = launch::start(&options.daemon, deadline)?;
            launch::note_userspace(&options.daemon);
            (client, may_end)
        }
        Err(denied) => return Err(denied.explain(&options.daemon.socket)),
    };
    let joins = options.token.is_some() || options.place.is_some();
    let former = if joins { client.status()?.me.map(|me| me.id) } else { None };
    let status = match connect(&mut client, &options, deadline) {
        Ok(status) => status,
        Err(why) => {
            if may_end && !why.keeps_trying {
                // A daemon that cannot connect is ended, because it would keep the state directory locked.
                client.end();
            }
            return Err(why.fault);
        }
    };
    if may_end && let Some(refusal) = refused_exit(&mut client, &options, &status, joins)? {
        client.end();
        return Err(refusal);
    }
    match (former, status.me.as_ref().map(|me| me.id)) {
        (Some(former), Some(id)) if former == id => {
            if let Some(note) = unneeded(&options, &status) {
                output::complain(&note);
            }
        }
        (Some(_), Some(_)) => {
            output::complain("taut: the coordinator no longer knew this node, so it joined as a new node");
        }
        _ => {}
    }
    if status.coordinator.as_ref().is_some_and(|coordinator| !coordinator.connected) {
        output::complain(&format!("taut: {}; the last network map is in use", waiting_for(&status)));
    }
    for warning in &status.warnings {
        output::complain(&format!("taut: {warning}"));
    }
    match options.json {
        true => output::print_json(&*status),
        false => output::print(&summary(&status)),
    }
}

/// Returns what a member did not need of its command line.
fn unneeded(options: &Options, status: &Status) -> Option<String> {
    let Some(place) = &options.place else {
        return Some(String::from("taut: this node is a member of that network already; the token was not needed"));
    };
    let used = status.coordinator.as_ref()?.url.trim_end_matches('/');
    if used == place.url {
        return None;
    }
    Some(format!(
        "taut: this node is a member of that network already, and keeps the URLs that it joined with, such as {used}; {} was not needed\n  \
         for other URLs: `taut up --join` with a token that has them",
        place.url
    ))
}

/// Refuses a kill switch that would end the ssh session of this command (fault J10).
fn check_session(options: &Options) -> Result<(), Fault> {
    let is_on = |name: &str| options.daemon.given.of(Origin::Flag).any(|(flag, value)| flag == name && value == "true");
    let Some(client) = ssh::client().filter(|_| is_on("kill-switch") && !options.cut_ssh) else { return Ok(()) };
    let is_private = match client {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    };
    if is_private && is_on("exit-node-allow-lan-access") { Ok(()) } else { Err(ssh::refusal(client)) }
}

/// Returns why the exit node of the command line is refused: no packet could take it, so it would only cut off this host. Only the coordinator's own map counts, because that of the disk may be older than the exit
/// node. A node that has just joined keeps it, because the operator may have to approve the exit node yet, except this host itself.
fn refused_exit(client: &mut Client, options: &Options, status: &Status, joins: bool) -> Result<Option<Fault>, Fault> {
    let origin = options.daemon.clone().resolve()?.config.given.origin("exit-node");
    if origin != Some(Origin::Flag) || joins && !chose_itself(options, status) {
        return Ok(None);
    }
    let begin = Instant::now();
    let unusable = |status: &Status| status.exit.as_ref().and_then(|exit| exit.unusable.clone());
    let is_connected = |status: &Status| status.coordinator.as_ref().is_some_and(|coordinator| coordinator.connected);
    let (mut refusal, mut was_connected) = (unusable(status), is_connected(status));
    // The map follows the coordinator's first answer.
    while refusal.is_some() && begin.elapsed() < FIRST_ANSWER {
        std::thread::sleep(POLL);
        let seen = client.status()?;
        (refusal, was_connected) = (unusable(&seen), is_connected(&seen));
    }
    Ok(refusal.filter(|_| was_connected).map(|Failure { message, hint }| {
        Fault::failed(message, format!("{hint}; run `taut up` again with another --exit-node, or without it"))
    }))
}

/// Returns true if the exit node of the command line is this host itself.
fn chose_itself(options: &Options, status: &Status) -> bool {
    let mut given = options.daemon.given.of(Origin::Flag);
    let Some((_, chosen)) = given.find(|(flag, _)| *flag == "exit-node") else { return false };
    status.me.as_ref().is_some_and(|me| match chosen.parse() {
        Ok(address) => me.addresses.contains(&address),
        Err(_) => me.name == chosen,
    })
}

/// Names the flags that a running daemon does not have, with the command that changes them.
fn complain_of_flags(client: &mut Client, flags: &DaemonFlags) {
    let known = match client.ask(&ApiRequest::Settings) {
        Ok(Some(ApiResponse::Settings(settings))) => settings.settings,
        // A daemon of an earlier release has no such request.
        _ => Vec::new(),
    };
    let is_in_force = |name: &str, value: &str| known.iter().any(|known| known.name == name && known.value == value);
    let others = flags.given.of(Origin::Flag).filter(|(name, value)| !is_in_force(name, value));
    let others: Vec<String> = others.map(|(name, value)| format!("--{name}={}", quoted(value))).collect();
    if !others.is_empty() {
        let others = others.join(" ");
        output::complain(&format!(
            "taut: a daemon runs already, and {others} has no effect on it\n  to change it, and keep that: `taut set {others}`"
        ));
    }
}

/// Returns a value as a shell takes it.
fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("'{value}'") } else { String::from(value) }
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let mut options = Options {
        token: None,
        coordinator: None,
        coordinator_key: None,
        place: None,
        name: None,
        timeout: Duration::from_secs(60),
        has_timeout: false,
        json: false,
        daemon: DaemonFlags::from_environment(),
        for_new_daemon: false,
        cut_ssh: false,
    };
    while let Some(word) = words.next()? {
        let Word::Flag(flag) = &word else { return Err(unexpected(&word)) };
        match flag.as_str() {
            "--join" | "--auth-key" => options.token = Some(given_token(words.value()?)?),
            "--hostname" => options.name = Some(name(&words.value()?)?),
            "--coordinator" => options.coordinator = Some(words.value()?),
            "--coordinator-key" => options.coordinator_key = Some(words.value()?),
            "--timeout" => (options.timeout, options.has_timeout) = (words.time(flag)?, true),
            "--json" => options.json = true,
            "--socket" => options.daemon.socket = PathBuf::from(words.value()?),
            "--cut-ssh" => options.cut_ssh = true,
            _ if options.daemon.take(flag, &mut words)? => options.for_new_daemon = true,
            _ => return Err(unexpected(&word)),
        }
    }
    Ok(options)
}

/// Returns the value of `--join`, unless it is a flag: a flag follows `--join` if a shell variable was empty.
fn given_token(text: String) -> Result<String, Fault> {
    match text.starts_with("--") {
        true => Err(Fault::usage(format!("`{text}` is not a join token; give one after --join or --auth-key"))),
        false => Ok(text),
    }
}

/// Returns the name in lower case, with hyphens instead of `_`, as for the host's own name. Refuses names with other characters.
fn name(text: &str) -> Result<String, Fault> {
    let name = text.trim().to_ascii_lowercase().replace('_', "-");
    let refused = |why: String| Fault::usage(format!("--hostname {text}: {why}"));
    match check_new_name(&name) {
        Ok(()) => Ok(name),
        Err(_) if name.contains('.') => {
            Err(refused(format!("a name has no dots; `{}` is allowed", name_from_host(&name))))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

/// The reason why `taut up` ended without a connection.
struct NotConnected {
    fault: Fault,
    /// True if the daemon keeps trying.
    keeps_trying: bool,
}

impl<F: Into<Fault>> From<F> for NotConnected {
    fn from(fault: F) -> Self {
        Self { fault: fault.into(), keeps_trying: false }
    }
}

/// Asks the daemon to connect, and waits until packets can flow.
fn connect(client: &mut Client, options: &Options, mut deadline: Instant) -> Result<Box<Status>, NotConnected> {
    let joins = options.token.is_some() || options.place.is_some();
    let (join, name, coordinator) = (options.token.clone(), options.name.clone(), options.place.clone());
    let request = ApiRequest::Up { join, name, coordinator };
    if !client.change(&request)? {
        return Err(Fault::failed("the daemon ended before it answered", "try again").into());
    }
    let begin = Instant::now();
    let mut told = false;
    let mut shown = None;
    loop {
        if joins && begin.elapsed() < SETTLE {
            std::thread::sleep(POLL);
            continue;
        }
        let status = client.status()?;
        if status.leave.as_ref().is_some_and(|leave| leave.state != LeaveState::Failed) {
            let fault = Fault::failed(
                "this node is leaving its network, because `taut leave` was run",
                "`taut status` shows its progress; join again with `taut up --join TOKEN`",
            );
            // `taut leave` ends the daemon once the coordinator knows.
            return Err(NotConnected { fault, keeps_trying: true });
        }
        if let Some(problem) = &status.problem
            && (joins || status.state != NodeState::Running)
        {
            return Err(problem.clone().into());
        }
        if let Some(waiting) = &status.waiting {
            if shown.as_ref() != Some(&waiting.code) {
                show(waiting);
                if waiting.code.is_some() && !options.has_timeout {
                    deadline = deadline.max(begin + FOR_A_PERSON);
                }
                (shown, told) = (Some(waiting.code.clone()), true);
            }
            if Instant::now() >= deadline {
                let Failure { message, .. } = waiting.problem.clone();
                let hint = "the daemon keeps waiting; `taut status` shows its state";
                return Err(NotConnected { fault: Fault::failed(message, hint), keeps_trying: true });
            }
            std::thread::sleep(POLL);
            continue;
        }
        let is_settled = has_asked(&status) && knows_resolver(&status);
        if status.state == NodeState::Running && (is_settled || begin.elapsed() >= FIRST_ANSWER) {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            let hint = "the daemon keeps trying; `taut status` shows its progress";
            return Err(NotConnected { fault: Fault::failed(waiting_for(&status), hint), keeps_trying: true });
        }
        if !told && begin.elapsed() >= NOTICE_AFTER {
            told = true;
            output::complain(&format!("{} …", waiting_for(&status)));
        }
        std::thread::sleep(POLL);
    }
}

/// Shows what this host waits for: the link, the code, and at a terminal a QR code of the link.
fn show(waiting: &WaitingStatus) {
    let Some(code) = &waiting.code else {
        return output::complain(&format!("taut: {}", waiting.problem));
    };
    let page = waiting.page.as_deref();
    if let Some(code) = page.and_then(qr_lines).filter(|_| std::io::stderr().is_terminal()) {
        output::complain(&code);
    }
    let link = page.map(|page| format!("open    {page}\n")).unwrap_or_default();
    output::complain(&format!(
        "A person has to approve this host.\n\n{link}code    {code}\nhost    {}\n\n\
         or run  taut-coordinator devices approve {code}\n\nwaiting …",
        waiting.machine
    ));
}

/// Returns true if the coordinator has answered, or could not be reached.
fn has_asked(status: &Status) -> bool {
    status.coordinator.as_ref().is_none_or(|coordinator| coordinator.connected || coordinator.last_error.is_some())
}

/// Returns true if the host's resolver asks for the network's names, or it is known why it does not: the next command of a script may use a name.
fn knows_resolver(status: &Status) -> bool {
    let names = status.me.as_ref().and_then(|me| me.names.as_ref()).filter(|names| !names.servers.is_empty());
    let resolver = names.and_then(|names| names.resolver.as_ref());
    resolver.is_none_or(|resolver| resolver.by.is_some() || resolver.problem.is_some())
}

fn waiting_for(status: &Status) -> String {
    match &status.coordinator {
        Some(coordinator) => match &coordinator.last_error {
            Some(error) => format!("the coordinator has not been reached yet ({error})"),
            None => format!("waiting for the coordinator at {}", coordinator.url),
        },
        None => String::from("waiting for the daemon"),
    }
}

/// Returns the line that is printed after connecting: name, addresses, number of peers.
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
    use std::ffi::OsString;
    use taut_agent::api::{ResolverBackEnd, ResolverStatus};

    use taut_agent::settings::Origin;
    use taut_base::PublicKey;

    use super::*;

    fn options(line: &str) -> Result<Options, Fault> {
        parse(Words::new(line.split_whitespace().map(OsString::from)))
    }

    #[test]
    fn flags_of_both_kinds() {
        let both = options("--auth-key file:/t --hostname a-1 --timeout 5s --socket /s --mtu 1300").unwrap();
        assert_eq!((both.token.as_deref(), both.name.as_deref()), (Some("file:/t"), Some("a-1")));
        assert_eq!(both.timeout, Duration::from_secs(5));
        assert_eq!(both.daemon.given.of(Origin::Flag).collect::<Vec<_>>(), [("mtu", "1300")]);
        assert!(both.for_new_daemon);
        assert!(
            !options("--join - --socket /s").unwrap().for_new_daemon,
            "the socket names the daemon and is no flag of a new one"
        );
        for (given, name) in [("MyLaptop", "mylaptop"), ("my_NAS-2", "my-nas-2"), (" web", "web")] {
            assert_eq!(self::name(given).unwrap(), name);
        }
        match name("Web.example.org") {
            Err(Fault::Usage { message, .. }) => assert!(message.ends_with("`web` is allowed"), "{message}"),
            other => panic!("{other:?}"),
        }
        let odd = ["--hostname A.B", "--hostname localhost", "--hostname -a", "--hostname ä"];
        for line in odd.into_iter().chain(["--timeout soon", "--join", "please", "--fast"]) {
            assert!(matches!(options(line), Err(Fault::Usage { .. } | Fault::UnknownFlag(_))), "{line}");
        }
    }

    #[test]
    fn an_answer_or_an_error_ends_the_wait_for_the_coordinator() {
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
    fn a_resolver_that_is_not_set_up_yet_is_waited_for() {
        let mut status = status::sample();
        let mut knows = |resolver| {
            if let Some(names) = status.me.as_mut().and_then(|me| me.names.as_mut()) {
                names.resolver = resolver;
            }
            knows_resolver(&status)
        };
        let problem = Some(Failure { message: String::new(), hint: String::new() });
        assert!(knows(None) && knows(Some(ResolverStatus { by: None, problem })));
        assert!(!knows(Some(ResolverStatus::default())));
        assert!(knows(Some(ResolverStatus { by: Some(ResolverBackEnd::File), problem: None })));
    }

    #[test]
    fn a_url_that_a_member_does_not_take_is_told() {
        let status = status::sample();
        let used = status.coordinator.as_ref().unwrap().url.clone();
        let mut options = options("").unwrap();
        assert!(unneeded(&options, &status).unwrap().ends_with("the token was not needed"));
        let mut given = |url: &str| {
            options.place = Some(CoordinatorPlace { url: String::from(url), key: PublicKey([7; 32]) });
            unneeded(&options, &status)
        };
        assert_eq!(given(&used), None);
        assert!(given("http://other").unwrap().contains("http://other was not needed"));
    }

    #[test]
    fn the_summary_is_one_line() {
        let mut status = status::sample();
        assert_eq!(summary(&status), "n1  100.64.0.1 fd00::1  2 peers");
        if let Some(me) = &mut status.me {
            (me.port, me.ports_taken) = (40_000, vec![8288]);
        }
        assert_eq!(summary(&status), "n1  100.64.0.1 fd00::1  2 peers\nUDP port 40000 (another program has 8288)");
    }
}
