//! `taut ping`: real echo requests through the overlay, so that it measures what traffic gets, and the path from the daemon's status.

mod echo;
mod report;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_agent::api::{Failure, PathStatus, PeerStatus};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{fault, output, peers};
use echo::Echoes;
use report::{Reply, Report};

pub(crate) const ARGUMENTS: &str = "PEER [-c N] [--until-direct] [--timeout TIME] [-4|-6] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
PEER is a name (NAME or NAME.NETWORK) or an overlay address. Unless told how many, requests are sent until a reply comes by a direct path, at most 20 in ten
seconds, or in TIME if that is longer. Each reply's line says by which path it came. Exit status 0 when at least one reply came.

-c, --count N    send N requests, one per second
--until-direct   stop at the first reply by a direct path; exit status 1 when there was none
--timeout TIME   how long to wait for each reply (default 5s)
-4, -6           which of the peer's addresses (default: the first, IPv4)
--json           one object with all replies at the end, with a schema version";

/// Between two requests, as users of ping know it.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same while a direct path is waited for: soon enough to see it come, and readable lines.
const SHORT_INTERVAL: Duration = Duration::from_millis(500);
/// Requests until a direct path is given up, and how long that takes at most: meanwhile every way to find one was tried.
const UNTIL_DIRECT: u16 = 20;
const WHOLE: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq)]
struct Wish {
    peer: String,
    count: Option<u16>,
    timeout: Duration,
    until_direct: bool,
    json: bool,
    /// `Some(true)` for IPv4, `Some(false)` for IPv6.
    ipv4: Option<bool>,
    socket: PathBuf,
}

impl Wish {
    fn count(&self) -> u16 {
        self.count.unwrap_or(UNTIL_DIRECT)
    }

    /// Whether a reply by a direct path is the end.
    fn stops_when_direct(&self) -> bool {
        self.until_direct || self.count.is_none()
    }

    /// How long a reply is waited for, after so much time; [`None`] when that was all of it.
    fn patience(&self, passed: Duration) -> Option<Duration> {
        let left = match self.count {
            Some(_) => self.timeout,
            None => self.timeout.min(self.timeout.max(WHOLE).saturating_sub(passed)),
        };
        (!left.is_zero()).then_some(left)
    }

    fn interval(&self) -> Duration {
        if self.stops_when_direct() { SHORT_INTERVAL } else { INTERVAL }
    }
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let wish = parse(words)?;
    let mut client = Client::open(&wish.socket)?;
    let status = client.status()?;
    peers::must_run(&status)?;
    let peer = peers::find(&status, &wish.peer)?;
    let address = choose(peer, &wish)?;
    let mut echoes = Echoes::open(address)?;
    let mut report = Report::new(&peer.name, address);
    let start = Instant::now();
    for sequence in 1..=wish.count() {
        let begin = Instant::now();
        let Some(patience) = wish.patience(begin - start) else { break };
        exchange(&mut echoes, &mut client, &wish, (sequence, patience), &mut report)?;
        if wish.stops_when_direct() && report.was_direct() {
            break;
        }
        if sequence < wish.count() {
            std::thread::sleep(wish.interval().saturating_sub(begin.elapsed()));
        }
    }
    if wish.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.summary())?;
        if wish.stops_when_direct() && !wish.until_direct && report.is_relayed() {
            output::print(&format!("no direct path yet; `taut why {}` says why", report.peer))?;
        }
    }
    match wish.until_direct && !report.was_direct() {
        true if report.received > 0 => {
            fault::complain(&Failure {
                message: format!("no direct path to {} was found", report.peer),
                hint: format!("`taut why {}` says why", report.peer),
            });
            Err(Fault::Said)
        }
        _ if report.received == 0 => Err(Fault::Said),
        _ => Ok(()),
    }
}

fn parse(mut words: Words) -> Result<Wish, Fault> {
    let mut wish = Wish {
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
            Word::Value(peer) if wish.peer.is_empty() => wish.peer.clone_from(peer),
            Word::Value(_) => return Err(unexpected(&word)),
            Word::Flag(flag) => match flag.as_str() {
                "-c" | "--count" => wish.count = Some(number(flag, &words.value()?)?),
                "--timeout" => wish.timeout = words.time(flag)?.max(Duration::from_millis(1)),
                "--until-direct" => wish.until_direct = true,
                "--json" => wish.json = true,
                "-4" => wish.ipv4 = Some(true),
                "-6" => wish.ipv4 = Some(false),
                "--socket" => wish.socket = PathBuf::from(words.value()?),
                _ => return Err(unexpected(&word)),
            },
        }
    }
    match wish.peer.is_empty() {
        true => Err(Fault::usage("say which peer; `taut status` lists them")),
        false => Ok(wish),
    }
}

fn number(flag: &str, text: &str) -> Result<u16, Fault> {
    let wrong = || Fault::usage(format!("{flag} {text}: write a number from 1 to {}", u16::MAX));
    text.parse().ok().filter(|count| *count != 0).ok_or_else(wrong)
}

/// The address that was asked for, or the first of the wanted kind.
fn choose(peer: &PeerStatus, wish: &Wish) -> Result<IpAddr, Fault> {
    if let Ok(address) = wish.peer.parse() {
        return Ok(address);
    }
    let wanted = |address: &&IpAddr| wish.ipv4.is_none_or(|ipv4| address.is_ipv4() == ipv4);
    let none =
        || Fault::failed(format!("{} has no overlay address of that kind", peer.name), "`taut status` lists addresses");
    peer.addresses.iter().find(wanted).copied().ok_or_else(none)
}

/// One request, its reply if that comes soon enough, and the path it went.
fn exchange(
    echoes: &mut Echoes,
    client: &mut Client,
    wish: &Wish,
    (sequence, patience): (u16, Duration),
    report: &mut Report,
) -> Result<(), Fault> {
    let answer = echoes.exchange(sequence, patience);
    // The path after the reply: the first request is what makes one.
    let status = client.status()?;
    let path = peers::find(&status, &wish.peer).map_or_else(|_| PathStatus::default(), |peer| peer.path.clone());
    report.sent += 1;
    let line = match answer {
        Ok(Some(time)) => {
            let reply = Reply::new(sequence, time, &path);
            let line = reply.describe(&report.peer, report.address);
            report.add(reply);
            line
        }
        Ok(None) => report::silence(&report.peer, report.address, patience, &path),
        Err(error) => report::trouble(&report.peer, report.address, &error, &path),
    };
    if !wish.json {
        output::print(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn wish(line: &str) -> Result<Wish, Fault> {
        parse(Words::new(line.split_whitespace().map(OsString::from)))
    }

    #[test]
    fn flags() {
        let all = wish("n2 -c 3 --timeout 500ms --until-direct --json -6 --socket /s").unwrap();
        assert_eq!((all.count(), all.timeout, all.ipv4), (3, Duration::from_millis(500), Some(false)));
        assert!(all.until_direct && all.json && all.peer == "n2");
        for (line, count, stops) in [
            ("n2", 20, true),
            ("n2 --until-direct", 20, true),
            ("n2 --count 4", 4, false),
            ("n2 -c 9 --until-direct", 9, true),
        ] {
            let wish = wish(line).unwrap();
            assert_eq!((wish.count(), wish.stops_when_direct()), (count, stops), "{line}");
        }
        for line in ["", "-c 0 n2", "-c n2", "n2 n3", "n2 --fast", "n2 --timeout x"] {
            assert!(matches!(wish(line), Err(Fault::Usage { .. } | Fault::UnknownFlag(_))), "{line}");
        }
    }

    #[test]
    fn without_a_count_it_ends_in_time_however_few_replies_come() {
        let after = |line, seconds| wish(line).unwrap().patience(Duration::from_secs_f64(seconds));
        for (line, seconds, patience) in [
            ("n2", 4.0, Some(5.0)),
            ("n2", 8.5, Some(1.5)),
            ("n2 --until-direct", 10.0, None),
            ("n2 --timeout 1s", 9.5, Some(0.5)),
            ("n2 --timeout 30s", 10.0, Some(20.0)),
            ("n2 --timeout 30s", 30.0, None),
            ("n2 -c 4", 100.0, Some(5.0)),
        ] {
            assert_eq!(after(line, seconds), patience.map(Duration::from_secs_f64), "{line} after {seconds} s");
        }
    }

    #[test]
    fn a_name_means_ipv4_unless_told_otherwise() {
        let status = crate::status::sample();
        let peer = &status.peers[0];
        for (line, address) in [("n2", "100.64.0.2"), ("n2 -6", "fd00::2"), ("fd00::2", "fd00::2")] {
            assert_eq!(choose(peer, &wish(line).unwrap()).unwrap().to_string(), address);
        }
        assert!(choose(&status.peers[1], &wish("router-3 -6").unwrap()).is_err());
    }
}
