//! `taut ping`: real echo requests through the overlay, so that it measures what traffic gets, and the path from the daemon's status.

mod echo;
mod report;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_keeper::api::{PathKind, PathStatus, PeerStatus};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{output, peers};
use echo::Echoes;
use report::{Reply, Report};

pub(crate) const ARGUMENTS: &str = "PEER [-c N] [--timeout TIME] [--until-direct] [-4|-6] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
PEER is a name or an overlay address. Exit code 0 when at least one reply came.

-c N             how many requests (default 4; with --until-direct at most 10)
--timeout TIME   how long to wait for each reply (default 5s)
--until-direct   stop at the first reply on a direct path; exit code 1 when there was none
-4, -6           which of the peer's addresses (default: the first, IPv4)
--json           one object with all replies at the end, with a schema version";

/// Between two requests, as users of ping know it.
const INTERVAL: Duration = Duration::from_secs(1);

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
        self.count.unwrap_or(if self.until_direct { 10 } else { 4 })
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
    for sequence in 1..=wish.count() {
        let begin = Instant::now();
        exchange(&mut echoes, &mut client, &wish, sequence, &mut report)?;
        if wish.until_direct && report.was_direct() {
            break;
        }
        if sequence < wish.count() {
            std::thread::sleep(INTERVAL.saturating_sub(begin.elapsed()));
        }
    }
    if wish.json {
        output::print_json(&report);
    } else {
        output::print(&report.summary());
    }
    match wish.until_direct && !report.was_direct() {
        true if report.received > 0 => Err(Fault::Failed(format!(
            "no direct path to {} was found; `taut status` shows the endpoints that are known",
            report.peer
        ))),
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
                "-c" => wish.count = Some(words.parse::<std::num::NonZeroU16>(flag)?.get()),
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

/// The address that was asked for, or the first of the wanted kind.
fn choose(peer: &PeerStatus, wish: &Wish) -> Result<IpAddr, Fault> {
    if let Ok(address) = wish.peer.parse() {
        return Ok(address);
    }
    let wanted = |address: &&IpAddr| wish.ipv4.is_none_or(|ipv4| address.is_ipv4() == ipv4);
    let none = || Fault::Failed(format!("{} has no overlay address of that kind", peer.name));
    peer.addresses.iter().find(wanted).copied().ok_or_else(none)
}

/// One request, its reply, and the path it went.
fn exchange(
    echoes: &mut Echoes,
    client: &mut Client,
    wish: &Wish,
    sequence: u16,
    report: &mut Report,
) -> Result<(), Fault> {
    let answer = echoes.exchange(sequence, wish.timeout);
    // The path after the reply: the first request is what makes one.
    let status = client.status()?;
    let path = peers::find(&status, &wish.peer)
        .map_or(PathStatus { kind: PathKind::None, endpoint: None }, |peer| peer.path.clone());
    report.sent += 1;
    let line = match answer {
        Ok(Some(time)) => {
            let reply = Reply::new(sequence, time, &path);
            let line = reply.describe(&report.peer, report.address);
            report.add(reply);
            line
        }
        Ok(None) => report::silence(&report.peer, report.address, wish.timeout, &path),
        Err(error) => report::trouble(&report.peer, report.address, &error, &path),
    };
    if !wish.json {
        output::print(&line);
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
        assert_eq!((wish("n2").unwrap().count(), wish("n2 --until-direct").unwrap().count()), (4, 10));
        for line in ["", "-c 0 n2", "-c n2", "n2 n3", "n2 --fast", "n2 --timeout x"] {
            assert!(matches!(wish(line), Err(Fault::Usage { .. })), "{line}");
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
