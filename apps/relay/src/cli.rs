//! The command line: flags, wiring and output.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::{Arg, Parser, ValueExt};
use serde_json::{Value, json};
use taut_base::{Descriptors, Prefix, Uses, closest};
use taut_event::{Events, Interest, Poller, Signal, Signals};
use taut_netmap::RelayToken;
use taut_noise::public_key;
use taut_relay::ForwardRate;
use taut_relay_server::log::{self, DAEMON, HANGUP, LevelSwitch, LogFormat, LogLevels};
use taut_relay_server::{
    ConnectionAdmission, Metrics, RelayConfig, RelayServer, Service, Stats, WebConfig, key_from_file, raise_open_files,
};
use taut_sandbox::{Access, Filter, Ruleset, Verdict, calls, no_core_dumps, no_new_privileges};

const HELP: &str = "\
taut-relay: forwards encrypted packets between nodes without a direct path

  taut-relay serve   run the relay until SIGTERM or SIGINT ends it
      --listen PORT          UDP port of frames and STUN (default 3478)
      --stun-port PORT       second UDP port that answers STUN, so that nodes can detect their type of NAT (default 3479)
      --coordinator TOKEN    serve the nodes of this coordinator, with a channel to it: it tells of removed nodes at once, and is
                             told of the load; TOKEN is the output of `taut-coordinator relay-token`; repeat for several
      --capacity BITS        traffic that this relay can forward in all, in bits per second; K, M or G after the number. It is part
                             of the load that coordinators are told, and no limit (default: unknown)
      --trust KEY            serve the nodes of this coordinator, without a channel; KEY is the output of `taut-coordinator ticket-key`; repeat for several
      --rate BITS            limit on the traffic that is forwarded for one node, in bits per second; K, M or G after the number
                             (default 1G)
      --threads N            number of threads that forward (default: one per core)
      --metrics ADDRESS      serve the counters at this address and port, such as 127.0.0.1:9478, as /metrics for Prometheus and
                             /status as JSON; anyone who can connect can read them (default: none)
      --web ADDRESS          accept nodes whose UDP is blocked, by WebSocket at this address and port, such as 0.0.0.0:443
                             (default: none)
      --web-cert FILE        PEM files of the certificate chain and its key, for wss://. Without them --web accepts ws://, for a web
                             server in front that does TLS
      --web-key FILE
      --trusted-proxy PREFIX
                             prefix of reverse proxies in front of --web, such as 10.0.0.0/8; limits use the client address from
                             Forwarded, X-Forwarded-For or the PROXY protocol; repeat for several (docs/reverse-proxy.md)
      --log-format FORMAT    text (default) or json: the form of the log on standard error
      --log-level LEVELS     error, warn, info (default), debug or trace; others for some areas as in info,relay=debug. Areas: daemon,
                             relay. SIGUSR1 records one level more, and after trace those of the command line again
      --key FILE             file of the relay's private key; the first start creates it (default /var/lib/taut-relay/key)
      --json                 print one JSON object instead of text
  taut-relay key     print the public key, which `taut-coordinator relays add` needs
      --key FILE             file of the relay's private key (default /var/lib/taut-relay/key)
      --json                 print it as JSON
  taut-relay status  print the counters of a running relay: counts since its start
      --metrics ADDRESS      address and port that `serve --metrics` of that relay was given (default 127.0.0.1:9478)
      --json                 print the counters as JSON
  taut-relay version print the version (--json)

`taut-relay COMMAND --help` prints the part of one command. docs/relay.md explains the counters.
Exit status: 0 success, 1 failure, 2 usage error. With --json a failure is also printed as an object:
{\"schema\":1,\"error\":{\"message\",\"hint\"}}.
";

const COMMANDS: [&str; 5] = ["serve", "key", "status", "help", "version"];
const OPTIONS: [&str; 18] = [
    "listen",
    "stun-port",
    "coordinator",
    "capacity",
    "trust",
    "rate",
    "threads",
    "metrics",
    "web",
    "web-cert",
    "web-key",
    "trusted-proxy",
    "key",
    "log-format",
    "log-level",
    "json",
    "help",
    "version",
];

/// All areas of the log, for `--log-level`; the second one is that of the library's events.
const AREAS: &[&str] = &[DAEMON, log::RELAY];

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Default path of the key.
const KEY: &str = "/var/lib/taut-relay/key";
/// Default address of the metrics that `status` reads.
const METRICS: &str = "127.0.0.1:9478";
/// Time that `status` waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The error of a command.
enum Failed {
    Usage(String),
    Run(String),
}

impl From<lexopt::Error> for Failed {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

fn run_failed(error: impl Display) -> Failed {
    Failed::Run(error.to_string())
}

/// The parsed command line.
struct Flags {
    listen: u16,
    stun_port: u16,
    coordinators: Vec<RelayToken>,
    /// Bits per second; 0 if unknown.
    capacity: u64,
    trust: Vec<taut_relay::VerifyingKey>,
    rate: ForwardRate,
    threads: usize,
    metrics: Option<SocketAddr>,
    key: PathBuf,
    web: Option<SocketAddr>,
    web_cert: Option<PathBuf>,
    web_key: Option<PathBuf>,
    trusted: Vec<Prefix>,
    log_format: LogFormat,
    log_levels: LogLevels,
    json: bool,
}

pub(crate) fn main() -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Usage(message)) => {
            let command = COMMANDS.into_iter().find(|command| std::env::args().nth(1).as_deref() == Some(command));
            report(&message, Some(&usage_hint(command)), 2, json)
        }
        Err(Failed::Run(message)) => report(&message, None, 1, json),
    }
}

/// Returns the usage line of a command, or of the program, and where its help is.
fn usage_hint(command: Option<&str>) -> String {
    let (name, options) = (command.unwrap_or("COMMAND"), "[OPTIONS]");
    let help = command.map_or_else(|| String::from("taut-relay --help"), |name| format!("taut-relay {name} --help"));
    format!("usage: taut-relay {name} {options}\n  see `{help}`")
}

/// Returns the help of a command; that of the program for a command without a part of its own.
fn help(command: Option<&str>) -> String {
    let head = command.map(|name| format!("  taut-relay {name} "));
    let is_head = |line: &&str| line.starts_with("  taut-relay ");
    let Some(start) = head.and_then(|head| HELP.find(&head)) else { return String::from(HELP) };
    let rest: Vec<&str> = HELP[start..].lines().collect();
    let end = rest.iter().skip(1).position(|line| is_head(line) || line.is_empty()).map_or(rest.len(), |at| at + 1);
    rest[..end].iter().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect()
}

/// Prints why a command failed, and returns the exit status. The sentence goes to standard error; with `json` an object goes to standard
/// output, too.
fn report(message: &str, hint: Option<&str>, status: u8, json: bool) -> ExitCode {
    complain(&hint.map_or_else(|| String::from(message), |hint| format!("{message}\n{hint}")));
    if json {
        // If standard output fails, the sentence on standard error remains.
        let _ =
            say(&format!("{}\n", json!({ "schema": 1, "ok": false, "error": { "message": message, "hint": hint } })));
    }
    ExitCode::from(status)
}

fn run() -> Result<(), Failed> {
    let (verb, flags) = match parse(Parser::from_env())? {
        Some(asked) => asked,
        None => return say(&help(std::env::args().nth(1).as_deref())),
    };
    match verb.as_str() {
        "serve" => serve(&flags),
        "key" => key(&flags),
        "status" => status(&flags),
        "help" => say(&help(None)),
        "version" if flags.json => say(&format!("{}\n", json!({ "schema": 1, "version": VERSION }))),
        "version" => say(&format!("taut-relay {VERSION}\n")),
        other => Err(unknown("command", "", other, &COMMANDS)),
    }
}

/// Returns the error for a word that is not in `known`, with the most similar known word. `dashes` is the prefix of the word.
fn unknown(what: &str, dashes: &str, typed: &str, known: &[&str]) -> Failed {
    let meant = closest(typed, known.iter().copied());
    let meant = meant.map_or_else(String::new, |word| format!("; did you mean `{dashes}{word}`?"));
    Failed::Usage(format!("there is no {what} `{dashes}{typed}`{meant}"))
}

/// Parses the command line. Returns `None` for `--help`.
fn parse(mut parser: Parser) -> Result<Option<(String, Flags)>, Failed> {
    let defaults = (taut_relay_server::DEFAULT_PORT, taut_relay_server::DEFAULT_STUN_PORT);
    let mut flags = Flags {
        listen: defaults.0,
        stun_port: defaults.1,
        coordinators: Vec::new(),
        capacity: 0,
        trust: Vec::new(),
        rate: ForwardRate::DEFAULT,
        threads: 0,
        metrics: None,
        key: PathBuf::from(KEY),
        web: None,
        web_cert: None,
        web_key: None,
        trusted: Vec::new(),
        log_format: LogFormat::default(),
        log_levels: LogLevels::new(AREAS),
        json: false,
    };
    let mut verb = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Short('V') | Arg::Long("version") => verb = Some(String::from("version")),
            Arg::Long("listen") => flags.listen = parser.value()?.parse()?,
            Arg::Long("stun-port") => flags.stun_port = parser.value()?.parse()?,
            Arg::Long("coordinator") => {
                let text = parser.value()?.string()?;
                let token: RelayToken =
                    text.parse().map_err(|error| Failed::Usage(format!("--coordinator: {error}")))?;
                if flags.coordinators.iter().any(|other: &RelayToken| other.coordinator == token.coordinator) {
                    let message = "--coordinator names the same coordinator twice; one token has all its URLs";
                    return Err(Failed::Usage(String::from(message)));
                }
                flags.coordinators.push(token);
            }
            Arg::Long("capacity") => {
                let text = parser.value()?.string()?;
                let rate: ForwardRate =
                    text.parse().map_err(|error| Failed::Usage(format!("--capacity `{text}`: {error}")))?;
                flags.capacity = rate.bytes_per_second.saturating_mul(8);
            }
            Arg::Long("trust") => flags.trust.push(parser.value()?.parse()?),
            Arg::Long("rate") => {
                let text = parser.value()?.string()?;
                flags.rate = text.parse().map_err(|error| Failed::Usage(format!("--rate `{text}`: {error}")))?;
            }
            Arg::Long("threads") => flags.threads = parser.value()?.parse()?,
            Arg::Long("metrics") => flags.metrics = Some(parser.value()?.parse()?),
            Arg::Long("web") => flags.web = Some(parser.value()?.parse()?),
            Arg::Long("web-cert") => flags.web_cert = Some(PathBuf::from(parser.value()?)),
            Arg::Long("web-key") => flags.web_key = Some(PathBuf::from(parser.value()?)),
            Arg::Long("trusted-proxy") => flags.trusted.push(parser.value()?.parse()?),
            Arg::Long("key") => flags.key = PathBuf::from(parser.value()?),
            Arg::Long("log-format") => flags.log_format = parser.value()?.parse()?,
            Arg::Long("log-level") => {
                flags.log_levels = parser.value()?.parse_with(|text| LogLevels::parse(text, AREAS))?;
            }
            Arg::Long("json") => flags.json = true,
            Arg::Value(word) if verb.is_none() => verb = Some(word.string()?),
            Arg::Long(name) => return Err(unknown("option", "--", name, &OPTIONS)),
            other => return Err(other.unexpected().into()),
        }
    }
    let verb = verb.ok_or_else(|| Failed::Usage(String::from("no command was given")))?;
    Ok(Some((verb, flags)))
}

fn serve(flags: &Flags) -> Result<(), Failed> {
    let signals =
        Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup, Signal::Inquire]).map_err(run_failed)?;
    let log = log::start(flags.log_format, flags.log_levels.clone());
    let log = log.ok_or_else(|| Failed::Run(String::from("the log does not start")))?;
    let switch = log.level_switch();
    let mut config = RelayConfig::new(key_from_file(&flags.key).map_err(run_failed)?);
    (config.port, config.stun_port, config.workers) = (flags.listen, flags.stun_port, flags.threads);
    config.trusted.clone_from(&flags.trust);
    config.share = flags.rate;
    let descriptors = Descriptors::divide(raise_open_files(), Uses { channels: false, streams: flags.web.is_some() });
    config.web = web(flags, &descriptors)?;
    let service = Service::connect(|name| std::env::var_os(name));
    // Everything is read, and no thread forwards yet.
    confine();
    let relay = RelayServer::start(&config).map_err(run_failed)?;
    let metrics = flags.metrics.map(|address| Metrics::start(address, relay.observer()));
    let metrics = metrics.transpose().map_err(|error| Failed::Run(format!("cannot listen for --metrics: {error}")))?;
    let address = metrics.as_ref().map(Metrics::address);
    report_ready(flags, &relay, address, &descriptors)?;
    let links = flags.coordinators.iter().map(|token| relay.connect(token.clone(), VERSION, flags.capacity));
    let links: Vec<_> = links.collect::<Result<_, _>>().map_err(run_failed)?;
    service.ready(&format!("serves UDP port {}", relay.port()));
    wait_for_end(&signals, &switch, &service, &relay)?;
    service.stopping();
    drop(links);
    drop(metrics);
    relay.stop();
    tracing::info!(target: DAEMON, event = "stopped");
    Ok(())
}

/// Acts on signals until one ends the relay. Meanwhile the service manager learns that all threads work: this thread alone would not notice that one is stuck.
fn wait_for_end(signals: &Signals, switch: &LevelSwitch, service: &Service, relay: &RelayServer) -> Result<(), Failed> {
    let mut liveness = relay.liveness();
    let poller = Poller::new().map_err(run_failed)?;
    poller.add(std::os::fd::AsFd::as_fd(signals), 0, Interest::READ).map_err(run_failed)?;
    let mut events = Events::with_capacity(1);
    let mut fed = Instant::now();
    loop {
        if let Some(interval) = service.watchdog()
            && fed.elapsed() >= interval
        {
            fed = Instant::now();
            if liveness.all_worked() {
                service.alive();
            }
        }
        let wait = service.watchdog().map(|interval| interval.saturating_sub(fed.elapsed()));
        match signals.next() {
            None => poller.wait(&mut events, wait).map_err(run_failed)?,
            Some(Signal::Inquire) => {
                let levels = switch.next_levels();
                tracing::info!(target: DAEMON, event = "levels-changed", %levels);
            }
            Some(Signal::Hangup) => tracing::info!(target: DAEMON, event = "hangup-ignored", hint = HANGUP),
            Some(Signal::Terminate | Signal::Interrupt) => return Ok(()),
        }
    }
}

/// Gives up rights that a relay does not need: it runs no programs, writes no files and changes nothing of its host. What the kernel lacks is left out. Names of coordinators are
/// looked up by libc, whose modules make calls and ask programs that are not known here, so other calls and unix sockets are allowed; a service manager may confine it further.
fn confine() {
    let files = || {
        let mut rules = Ruleset::of_files()?;
        rules.allow(Path::new("/"), Access::Read)?;
        rules.enter()
    };
    let calls = Filter::lenient().with(calls::ADMINISTRATION, Verdict::DENIED).with(calls::ATTACKS, Verdict::Kill);
    let refused = [
        ("core-dumps", no_core_dumps()),
        ("privileges", no_new_privileges()),
        ("files", files().map(drop)),
        ("system-calls", calls.enter()),
    ];
    for (part, error) in refused.into_iter().filter_map(|(part, result)| Some((part, result.err()?))) {
        tracing::info!(target: DAEMON, event = "sandbox-part-missing", part, %error);
    }
}

/// Returns the settings for WebSocket if the flags ask for it. A certificate without its key, or the reverse, is a usage error.
fn web(flags: &Flags, descriptors: &Descriptors) -> Result<Option<WebConfig>, Failed> {
    let certificate = match (&flags.web_cert, &flags.web_key) {
        (Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
        (None, None) => None,
        _ => return Err(Failed::Usage(String::from("--web-cert and --web-key need each other"))),
    };
    match flags.web {
        Some(address) => {
            let admission = ConnectionAdmission::new(descriptors.unauthenticated, flags.trusted.clone());
            let streams = descriptors.streams;
            Ok(Some(WebConfig { address: Some(address), certificate, admission, streams }))
        }
        None if certificate.is_some() => Err(Failed::Usage(String::from("--web-cert needs --web ADDRESS"))),
        None if !flags.trusted.is_empty() => Err(Failed::Usage(String::from("--trusted-proxy needs --web ADDRESS"))),
        None => Ok(None),
    }
}

/// Reports that the relay is ready: to the log, and in one line on standard output.
fn report_ready(
    flags: &Flags,
    relay: &RelayServer,
    metrics: Option<SocketAddr>,
    descriptors: &Descriptors,
) -> Result<(), Failed> {
    let (key, port, stun_port) = (relay.key(), relay.port(), relay.stun_port());
    let Descriptors { unauthenticated, streams, rest, .. } = *descriptors;
    log::warn_of_clock();
    tracing::info!(target: DAEMON, event = "started", version = VERSION, port, stun_port, %key);
    if flags.trust.is_empty() && flags.coordinators.is_empty() {
        let hint = "give --coordinator TOKEN; `taut-coordinator relay-token` prints the token";
        let reason = "this relay answers STUN and forwards nothing, because it trusts no coordinator";
        tracing::warn!(target: DAEMON, event = "no-coordinator", reason, hint);
    }
    if flags.web.is_some() {
        tracing::info!(target: DAEMON, event = "descriptors", unauthenticated, streams, rest);
    }
    if flags.json {
        let metrics = metrics.map(|address| address.to_string());
        let web = relay.web().map(|address| address.to_string());
        let descriptors = json!({ "unauthenticated": unauthenticated, "streams": streams, "rest": rest });
        let object = json!({
            "schema": 1, "key": key, "port": port, "stun_port": stun_port, "metrics": metrics, "web": web, "descriptors": descriptors,
        });
        return say(&format!("{object}\n"));
    }
    say(&format!("relay {key} on UDP {port}, STUN on {stun_port}, too\n"))
}

fn key(flags: &Flags) -> Result<(), Failed> {
    let key = public_key(&key_from_file(&flags.key).map_err(run_failed)?);
    say(&if flags.json { format!("{}\n", json!({ "schema": 1, "key": key })) } else { format!("{key}\n") })
}

fn status(flags: &Flags) -> Result<(), Failed> {
    let address = match flags.metrics {
        Some(address) => address,
        None => METRICS.parse().map_err(run_failed)?,
    };
    let body = fetch(address).map_err(|error| {
        Failed::Run(format!("no relay answers at {address}: {error}; is it running with --metrics {address}?"))
    })?;
    let object: Value = serde_json::from_str(&body).map_err(run_failed)?;
    if flags.json {
        return say(&format!("{object}\n"));
    }
    let mut text = format!("{address}: counters since the start of the relay (docs/relay.md)\n");
    for (name, value) in
        object.as_object().into_iter().flatten().filter(|(name, value)| *name != "schema" && value.is_u64())
    {
        let meaning = Stats::meaning(name).unwrap_or_default();
        text.push_str(&format!("{:<22}{value:>16}  {meaning}\n", name.replace('_', " ")));
    }
    for (reason, count) in
        object["drops"].as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() != Some(0))
    {
        text.push_str(&format!("dropped {reason:<14}{count:>16}  Datagrams, frames or connections.\n"));
    }
    say(&text)
}

fn fetch(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /status HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(1 << 20).read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| std::io::Error::other("that is no answer of a relay"))
}

/// Prints to standard output. A reader that closed the pipe (`| head`) is no error.
fn say(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failed::Run(format!("the output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

fn complain(message: &str) {
    // Standard error is closed, so the failure cannot be reported.
    let _ = writeln!(std::io::stderr(), "taut-relay: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(line: &str) -> Option<String> {
        match parse(Parser::from_args(line.split_whitespace())) {
            Err(Failed::Usage(message)) => Some(message),
            _ => None,
        }
    }

    #[test]
    fn a_mistyped_word_is_named_with_the_one_that_was_meant() {
        assert_eq!(usage("serve --lisen 1").unwrap(), "there is no option `--lisen`; did you mean `--listen`?");
        assert_eq!(usage("serve --nonsense").unwrap(), "there is no option `--nonsense`");
        let Failed::Usage(message) = unknown("command", "", "statsu", &COMMANDS) else { panic!() };
        assert_eq!(message, "there is no command `statsu`; did you mean `status`?");
    }

    #[test]
    fn the_help_of_a_command_is_its_part_of_the_help() {
        let status = help(Some("status"));
        assert!(status.starts_with("taut-relay status  print the counters"), "{status}");
        assert!(status.contains("--metrics ADDRESS") && !status.contains("--listen") && !status.contains("version"));
        assert!(help(Some("serve")).contains("--log-level") && !help(Some("serve")).contains("taut-relay key"));
        for whole in [None, Some("nonsense"), Some("help")] {
            assert_eq!(help(whole), HELP);
        }
        assert_eq!(usage_hint(Some("key")), "usage: taut-relay key [OPTIONS]\n  see `taut-relay key --help`");
    }

    #[test]
    fn every_option_that_is_suggested_exists() {
        for option in OPTIONS {
            let found = usage(&format!("serve --{option}"));
            assert!(!found.is_some_and(|message| message.contains("there is no option")), "{option}");
        }
    }
}
