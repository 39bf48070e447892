//! `taut log`: shows events from the daemon's memory or from the disk, as text or as JSON lines.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_agent::api::ApiRequest;
use taut_agent::log::{Area, Entry, Level};
use taut_base::parse_time;

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{self, Word, Words, default_socket, default_state, unexpected};
use crate::output;

pub(crate) const ARGUMENTS: &str = "[-f] [--since TIME] [--peer NAME] [--area AREA] [--priority LEVEL] [--json] [--level LEVELS] [--state DIR] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
Shows the latest 1,000 events, those of an earlier run of the daemon first. For root and the daemon's user only. docs/log.md explains each event.

-f, --follow      keep showing new events, also after a restart of the daemon
--since TIME      only events since TIME: an age such as 10m, 2h or 3d, or a time such as 2026-11-24T03:12 (UTC)
--peer NAME       only events of this peer
--area AREA       only events of this area: daemon, coordinator, map, path, relay, handshake, session, host, portmap or input
--priority LEVEL  only events of this level and above: error, warn, info, debug or trace
--json            one object per line, with a schema version
--level LEVELS    set the events that the daemon records until it ends, such as info,path=debug, and show nothing; with -f, then follow
--state DIR       directory of the saved events, for use while no daemon runs (default /var/lib/taut)";

/// Time between two requests to the daemon with `-f`, 250 ms: short enough for a reader, and only four requests per second for the daemon.
const FOLLOW: Duration = Duration::from_millis(250);

/// Time between two attempts to reach a daemon that has ended, 1 s.
const RECONNECT: Duration = Duration::from_secs(1);

/// Limit on the lines that are read from the disk, 1,000: as many as the daemon keeps.
const MAX_SAVED: usize = 1_000;

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    follow: bool,
    json: bool,
    levels: Option<String>,
    filter: Filter,
    state: PathBuf,
    socket: PathBuf,
}

/// The choice of the events that are shown.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    since: Option<Duration>,
    peer: Option<String>,
    area: Option<Area>,
    least: Option<Level>,
}

impl Filter {
    fn shows(&self, entry: &Entry) -> bool {
        let is_peer = |name: &String| entry.field("peer").is_some_and(|peer| peer.eq_ignore_ascii_case(name));
        self.since.is_none_or(|since| entry.time >= since)
            && self.peer.as_ref().is_none_or(is_peer)
            && self.area.is_none_or(|area| entry.area == area.name())
            && self.least.is_none_or(|least| entry.level <= least)
    }
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let options = parse(words, taut_event::wall_clock())?;
    if let Some(levels) = &options.levels {
        Client::open(&options.socket)?.change(&ApiRequest::LogLevel { levels: levels.clone() })?;
        if !options.follow {
            return output::print(&format!("the daemon records {levels} until it ends"));
        }
    }
    let mut shown = Shown { options: &options, last: None, ended: false };
    match Client::connect(&options.socket) {
        Ok(mut client) => {
            let next = shown.catch_up(&mut client, None)?;
            if options.follow { follow(&mut shown, client, next) } else { Ok(()) }
        }
        Err(NoDaemon::Absent) => {
            let saved = saved(&options.state)?;
            let socket = options.socket.display();
            output::complain(&format!(
                "taut: no daemon answers on {socket}; these are the events that it left on the disk"
            ));
            shown.lines(&saved)?;
            if options.follow { wait_and_follow(&mut shown) } else { Ok(()) }
        }
        Err(denied) => Err(denied.explain(&options.socket)),
    }
}

/// Returns the events that are saved on the disk.
pub(crate) fn saved(state: &Path) -> Result<Vec<String>, Fault> {
    taut_control::saved_events(state, MAX_SAVED).map_err(|error| {
        let message = format!("the events in {} cannot be read: {error}", state.display());
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "they are for root and the daemon's user: try again with sudo",
            _ => "name the right directory with --state",
        };
        Fault::failed(message, hint)
    })
}

fn parse(mut words: Words, now: Duration) -> Result<Options, Fault> {
    let mut options = Options { state: default_state(), socket: default_socket(), ..Options::default() };
    let filter = &mut options.filter;
    while let Some(word) = words.next()? {
        let Word::Flag(flag) = &word else { return Err(unexpected(&word)) };
        match &flag[..] {
            "-f" | "--follow" => options.follow = true,
            "--json" => options.json = true,
            "--since" => filter.since = Some(since(&words.value()?, now)?),
            "--peer" => filter.peer = Some(peer(&words.value()?)),
            "--area" => filter.area = Some(area(&words.value()?)?),
            "--priority" => filter.least = Some(level(&words.value()?)?),
            "--level" => options.levels = Some(flags::levels("--level", &words.value()?)?.to_string()),
            "--state" => options.state = PathBuf::from(words.value()?),
            "--socket" => options.socket = PathBuf::from(words.value()?),
            _ => return Err(unexpected(&word)),
        }
    }
    Ok(options)
}

/// Parses an age or a time. Returns the time since 1970.
fn since(text: &str, now: Duration) -> Result<Duration, Fault> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let ago = days.map(|days| Duration::from_secs(86_400) * days).or_else(|| flags::duration(text));
    ago.map(|ago| now.saturating_sub(ago)).or_else(|| parse_time(text)).ok_or_else(|| {
        Fault::usage(format!(
            "--since {text}: write a time ago such as 10m, 2h or 3d, or a time such as 2026-11-24T03:12"
        ))
    })
}

/// Returns a peer's name without its network.
fn peer(name: &str) -> String {
    String::from(name.split_once('.').map_or(name, |(peer, _)| peer))
}

fn area(text: &str) -> Result<Area, Fault> {
    Area::of(text).ok_or_else(|| Fault::usage(format!("--area {text}: write one of {}", Area::names())))
}

fn level(text: &str) -> Result<Level, Fault> {
    Level::of(text).ok_or_else(|| Fault::usage(format!("--priority {text}: write error, warn, info, debug or trace")))
}

/// Progress of the display: the events shown so far.
struct Shown<'a> {
    options: &'a Options,
    /// The last shown line that the daemon also saves on the disk.
    last: Option<String>,
    /// True if the reader has closed the pipe.
    ended: bool,
}

impl Shown<'_> {
    /// Shows the daemon's events from number `from` on. Returns the daemon's process id, and the number from which the next request continues.
    fn catch_up(&mut self, client: &mut Client, mut from: Option<u64>) -> Result<(u32, u64), Fault> {
        loop {
            let part = client.log(from)?;
            if part.missed > 0 {
                self.missed(part.missed)?;
            }
            self.lines(&part.lines)?;
            if part.lines.is_empty() || self.ended {
                return Ok((part.pid, part.next));
            }
            from = Some(part.next);
        }
    }

    /// Shows the events of a restarted daemon: those after the last shown line, or those since its start if that line is not among them.
    fn catch_up_after_restart(&mut self, client: &mut Client) -> Result<(u32, u64), Fault> {
        let (mut lines, mut from) = (Vec::new(), None);
        let next = loop {
            let part = client.log(from)?;
            if part.lines.is_empty() {
                break (part.pid, part.next);
            }
            from = Some(part.next);
            lines.extend(part.lines);
        };
        let is_first = |line: &String| Entry::parse(line).is_some_and(|entry| entry.event == "daemon-started");
        let known = lines.iter().rposition(|line| Some(line) == self.last.as_ref()).map(|place| place + 1);
        let first = known.or_else(|| lines.iter().rposition(is_first)).unwrap_or(0);
        self.lines(&lines[first..])?;
        Ok(next)
    }

    fn lines(&mut self, lines: &[String]) -> Result<(), Fault> {
        for line in lines {
            let Some(entry) = Entry::parse(line) else { continue };
            if entry.level <= Level::Info {
                self.last = Some(line.clone());
            }
            if !self.options.filter.shows(&entry) {
                continue;
            }
            match self.options.json {
                true => self.print(line)?,
                false => self.print(&entry.text())?,
            }
        }
        Ok(())
    }

    /// Reports that events were dropped from the daemon's memory before they could be shown.
    fn missed(&mut self, count: u64) -> Result<(), Fault> {
        if self.options.json {
            return self.print(&format!("{{\"schema\":1,\"missed\":{count}}}"));
        }
        output::complain(&format!(
            "taut: {count} events were dropped from the daemon's memory before they could be shown"
        ));
        Ok(())
    }

    fn print(&mut self, line: &str) -> Result<(), Fault> {
        let text: String = line.chars().filter(|letter| taut_base::is_printable(*letter)).chain(['\n']).collect();
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.ended = true;
                Ok(())
            }
            Err(error) => Err(Fault::failed(format!("the output cannot be written: {error}"), "")),
        }
    }
}

/// Shows new events until the reader closes the pipe.
fn follow(shown: &mut Shown<'_>, mut client: Client, (pid, mut next): (u32, u64)) -> Result<(), Fault> {
    while !shown.ended {
        std::thread::sleep(FOLLOW);
        match shown.catch_up(&mut client, Some(next)) {
            Ok((_, after)) => next = after,
            Err(fault) => {
                let Ok(again) = Client::connect(&shown.options.socket) else { return wait_and_follow(shown) };
                client = again;
                // If the daemon is still the same, its refusal is an error. A new daemon numbers its events from the start.
                if client.log(Some(next))?.pid == pid {
                    return Err(fault);
                }
                return resume(shown, client);
            }
        }
    }
    Ok(())
}

/// Waits until a daemon is started, and follows it.
fn wait_and_follow(shown: &mut Shown<'_>) -> Result<(), Fault> {
    output::complain("taut: waiting for the daemon");
    loop {
        match Client::connect(&shown.options.socket) {
            Ok(client) => return resume(shown, client),
            Err(NoDaemon::Absent) => std::thread::sleep(RECONNECT),
            Err(denied) => return Err(denied.explain(&shown.options.socket)),
        }
    }
}

fn resume(shown: &mut Shown<'_>, mut client: Client) -> Result<(), Fault> {
    let next = shown.catch_up_after_restart(&mut client)?;
    follow(shown, client, next)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_795_489_927);

    fn options(line: &str) -> Result<Options, Fault> {
        parse(Words::new(line.split_whitespace().map(OsString::from)), NOW)
    }

    #[test]
    fn flags_choose_the_shown_events() {
        let all =
            options("-f --since 10m --peer Nas.home --area path --priority warn --json --level path=debug").unwrap();
        assert!(all.follow && all.json);
        assert_eq!(all.levels.as_deref(), Some("info,path=debug"));
        let since = Some(NOW - Duration::from_secs(600));
        let filter = Filter { since, peer: Some("Nas".into()), area: Some(Area::Path), least: Some(Level::Warn) };
        assert_eq!(all.filter, filter);
        for line in [
            "x",
            "--since",
            "--since soon",
            "--since -5m",
            "--area paths",
            "--priority loud",
            "--level loud",
            "--fast",
            "--since 2026-13-01",
            "--since 1x",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
        for (text, ago) in [("90", 90), ("90s", 90), ("1.5h", 5_400), ("3d", 259_200), ("2026-11-24T03:00:00Z", 727)] {
            assert_eq!(super::since(text, NOW).unwrap(), NOW - Duration::from_secs(ago), "{text}");
        }
        assert_eq!(super::since("99999999d", NOW).unwrap(), Duration::ZERO);
    }

    #[test]
    fn a_filter_shows_only_matching_events() {
        let line = "{\"schema\":1,\"time\":\"2026-11-24T03:12:07.000Z\",\"level\":\"warn\",\"area\":\"path\",\"event\":\"e\",\"peer\":\"nas\"}";
        let entry = Entry::parse(line).unwrap();
        let shows = |words: &str| options(words).unwrap().filter.shows(&entry);
        assert!(
            ["", "--peer NAS", "--area path --priority warn", "--since 1s", "--priority info"].into_iter().all(shows)
        );
        assert!(!["--peer na", "--area map", "--priority error", "--since 2026-11-24T03:12:08"].into_iter().any(shows));
    }
}
