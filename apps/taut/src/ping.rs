//! `taut ping`: sends echo requests through the overlay, so the measured times are those of other traffic. The path comes from the daemon's status.

mod echo;
mod report;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_agent::api::{Failure, PathStatus, PeerStatus};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{failure, output, peers};
use echo::Echoes;
use report::{Reply, Report};

pub(crate) const ARGUMENTS: &str = "PEER [-c N] [--until-direct] [--timeout TIME] [-4|-6] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
PEER is a name (NAME or NAME.NETWORK) or an overlay address. Without -c, it sends requests until a reply comes on a direct path: at most 20, within ten
seconds, or within TIME if that is longer. The line of each reply names its path. Exit status: 0 if at least one reply came, 1 otherwise.

-c, --count N    send N requests, one per second
--until-direct   stop at the first reply on a direct path; exit status 1 if there was none
--timeout TIME   longest wait for each reply (default 5s)
-4, -6           use the peer's IPv4 or IPv6 address (default: the first, IPv4)
--json           print one object with all replies at the end, with a schema version";

/// Time between two requests, 1 s as with ping(8).
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two requests during the wait for a direct path, 500 ms: short enough to show soon that the path exists, long enough to read the lines.
const SHORT_INTERVAL: Duration = Duration::from_millis(500);
/// Limit on the requests during the wait for a direct path, 20. With the interval of 500 ms they last as long as [`DIRECT_TIMEOUT`].
const UNTIL_DIRECT: u16 = 20;
/// Longest wait for a direct path, 10 s: by then the daemon has tried every way to find one.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    peer: String,
    count: Option<u16>,
    timeout: Duration,
    until_direct: bool,
    json: bool,
    /// `Some(true)` for IPv4, `Some(false)` for IPv6.
    ipv4: Option<bool>,
    socket: PathBuf,
}

impl Options {
    fn count(&self) -> u16 {
        self.count.unwrap_or(UNTIL_DIRECT)
    }

    /// Returns true if a reply on a direct path ends the command.
    fn stops_when_direct(&self) -> bool {
        self.until_direct || self.count.is_none()
    }

    /// Returns the longest wait for the next reply when `passed` is the time since the start; [`None`] when the time is used up.
    fn reply_timeout(&self, passed: Duration) -> Option<Duration> {
        let left = match self.count {
            Some(_) => self.timeout,
            None => self.timeout.min(self.timeout.max(DIRECT_TIMEOUT).saturating_sub(passed)),
        };
        (!left.is_zero()).then_some(left)
    }

    fn interval(&self) -> Duration {
        if self.stops_when_direct() { SHORT_INTERVAL } else { INTERVAL }
    }
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let options = parse(words)?;
    let mut client = Client::open(&options.socket)?;
    let status = client.status()?;
    peers::must_run(&status)?;
    let peer = peers::find(&status, &options.peer)?;
    #[cfg(feature = "userspace")]
    if status.userspace.is_some() {
        // The host would send them to the overlay address on its own link, in the clear.
        return Err(Fault::failed(
            "this node has a userspace network, which sends no echo requests of programs of this host",
            format!("see `taut why {}`, or connect to the peer by the SOCKS5 proxy", peer.name),
        ));
    }
    let address = choose(peer, &options)?;
    let mut echoes = Echoes::open(address)?;
    let mut report = Report::new(&peer.name, address);
    let start = Instant::now();
    for sequence in 1..=options.count() {
        let begin = Instant::now();
        let Some(timeout) = options.reply_timeout(begin - start) else { break };
        exchange(&mut echoes, &mut client, &options, (sequence, timeout), &mut report)?;
        if options.stops_when_direct() && report.was_direct() {
            break;
        }
        if sequence < options.count() {
            std::thread::sleep(options.interval().saturating_sub(begin.elapsed()));
        }
    }
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.summary())?;
        if options.stops_when_direct() && !options.until_direct && report.is_relayed() {
            output::print(&format!("no direct path yet; `taut why {}` explains why", report.peer))?;
        }
    }
    match options.until_direct && !report.was_direct() {
        true if report.received > 0 => {
            failure::complain(&Failure {
                message: format!("no direct path to {} was found", report.peer),
                hint: format!("`taut why {}` explains why", report.peer),
            });
            Err(Fault::Reported)
        }
        _ if report.received == 0 => Err(Fault::Reported),
        _ => Ok(()),
    }
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let mut options = Options {
        peer: String::new(),
        count: None,
        timeout: Duration::from_secs(5),
        until_direct: false,
        json: false,
        ipv4: None,
        socket: default_socket(),
    };
    while let Some(word) = words.next()? {
        match &word {
            Word::Value(peer) if options.peer.is_empty() => options.peer.clone_from(peer),
            Word::Value(_) => return Err(unexpected(&word)),
            Word::Flag(flag) => match flag.as_str() {
                "-c" | "--count" => options.count = Some(number(flag, &words.value()?)?),
                "--timeout" => options.timeout = words.time(flag)?.max(Duration::from_millis(1)),
                "--until-direct" => options.until_direct = true,
                "--json" => options.json = true,
                "-4" => options.ipv4 = Some(true),
                "-6" => options.ipv4 = Some(false),
                "--socket" => options.socket = PathBuf::from(words.value()?),
                _ => return Err(unexpected(&word)),
            },
        }
    }
    match options.peer.is_empty() {
        true => Err(Fault::usage("a peer is missing; `taut status` lists the peers")),
        false => Ok(options),
    }
}

fn number(flag: &str, text: &str) -> Result<u16, Fault> {
    let wrong = || Fault::usage(format!("{flag} {text}: write a number from 1 to {}", u16::MAX));
    text.parse().ok().filter(|count| *count != 0).ok_or_else(wrong)
}

/// Returns the address to ping: that of the command line, or the peer's first one of the wanted IP version.
fn choose(peer: &PeerStatus, options: &Options) -> Result<IpAddr, Fault> {
    if let Ok(address) = options.peer.parse() {
        return Ok(address);
    }
    let wanted = |address: &&IpAddr| options.ipv4.is_none_or(|ipv4| address.is_ipv4() == ipv4);
    let none = || {
        Fault::failed(
            format!("{} has no overlay address of that IP version", peer.name),
            "`taut status` lists addresses",
        )
    };
    peer.addresses.iter().find(wanted).copied().ok_or_else(none)
}

/// Sends one request, waits for its reply, and prints the result with the path.
fn exchange(
    echoes: &mut Echoes,
    client: &mut Client,
    options: &Options,
    (sequence, timeout): (u16, Duration),
    report: &mut Report,
) -> Result<(), Fault> {
    let answer = echoes.exchange(sequence, timeout);
    // The path is read after the reply, because the first request creates it.
    let status = client.status()?;
    let path = peers::find(&status, &options.peer).map_or_else(|_| PathStatus::default(), |peer| peer.path.clone());
    report.sent += 1;
    let line = match answer {
        Ok(Some(time)) => {
            let reply = Reply::new(sequence, time, &path);
            let line = reply.describe(&report.peer, report.address);
            report.add(reply);
            line
        }
        Ok(None) => report::no_reply(&report.peer, report.address, timeout, &path),
        Err(error) => report::not_sent(&report.peer, report.address, &error, &path),
    };
    if !options.json {
        output::print(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn options(line: &str) -> Result<Options, Fault> {
        parse(Words::new(line.split_whitespace().map(OsString::from)))
    }

    #[test]
    fn flags() {
        let all = options("n2 -c 3 --timeout 500ms --until-direct --json -6 --socket /s").unwrap();
        assert_eq!((all.count(), all.timeout, all.ipv4), (3, Duration::from_millis(500), Some(false)));
        assert!(all.until_direct && all.json && all.peer == "n2");
        for (line, count, stops) in [
            ("n2", 20, true),
            ("n2 --until-direct", 20, true),
            ("n2 --count 4", 4, false),
            ("n2 -c 9 --until-direct", 9, true),
        ] {
            let options = options(line).unwrap();
            assert_eq!((options.count(), options.stops_when_direct()), (count, stops), "{line}");
        }
        for line in ["", "-c 0 n2", "-c n2", "n2 n3", "n2 --fast", "n2 --timeout x"] {
            assert!(matches!(options(line), Err(Fault::Usage { .. } | Fault::UnknownFlag(_))), "{line}");
        }
    }

    #[test]
    fn without_a_count_ping_ends_in_time() {
        let after = |line, seconds| options(line).unwrap().reply_timeout(Duration::from_secs_f64(seconds));
        for (line, seconds, timeout) in [
            ("n2", 4.0, Some(5.0)),
            ("n2", 8.5, Some(1.5)),
            ("n2 --until-direct", 10.0, None),
            ("n2 --timeout 1s", 9.5, Some(0.5)),
            ("n2 --timeout 30s", 10.0, Some(20.0)),
            ("n2 --timeout 30s", 30.0, None),
            ("n2 -c 4", 100.0, Some(5.0)),
        ] {
            assert_eq!(after(line, seconds), timeout.map(Duration::from_secs_f64), "{line} after {seconds} s");
        }
    }

    #[test]
    fn a_name_means_the_ipv4_address_by_default() {
        let status = crate::status::sample();
        let peer = &status.peers[0];
        for (line, address) in [("n2", "100.64.0.2"), ("n2 -6", "fd00::2"), ("fd00::2", "fd00::2")] {
            assert_eq!(choose(peer, &options(line).unwrap()).unwrap().to_string(), address);
        }
        assert!(choose(&status.peers[1], &options("router-3 -6").unwrap()).is_err());
    }
}
