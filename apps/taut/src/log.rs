//! `taut log`: shows events from the daemon's memory or from the disk, as text or as JSON lines.

mod merge;
mod moment;

use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use taut_agent::api::{ApiRequest, LogPart};
use taut_agent::log::{Area, Entry, LOG_SCHEMA, Level};
use taut_agent::settings::{LEVELS, meant_events};
use taut_base::format_time;

use crate::client::{Client, NoDaemon};
use crate::fault::{Fault, suggestion};
use crate::flags::{self, Word, Words, default_socket, default_state, unexpected};
use crate::{output, peers};

pub(crate) const ARGUMENTS: &str = "[-f] [-n N] [--since TIME] [--until TIME] [--peer PEER] [--area AREA] [--level LEVEL] [--json] [--record LEVELS] [--state DIR] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
Shows the events in the daemon's memory and on the disk, the oldest first. For root and the daemon's user only. docs/log.md explains each event.

-f, --follow      keep showing new events, also after a restart of the daemon
-n, --lines N     only the last N of the chosen events
--since TIME      only events since TIME: an age such as 10m, 1h30m, 3d or 1w, or a time such as 03:12, yesterday,
                  2026-11-24T03:12 or 2026-11-24T03:12+01:00; UTC without an offset, as the shown times
--until TIME      only events until TIME
--peer PEER       only events of this peer: a name, or an overlay address while the daemon runs
--area AREA       only events of this area: daemon, coordinator, map, path, relay, handshake, session, host, portmap or input
--level, --priority LEVEL
                  only events of this level and above: error, warn, info, debug or trace (--priority is the former name)
--json            one object per line, with a schema version
--record LEVELS   set the events that the daemon records until it ends, such as info,path=debug, and show nothing; with -f, then follow
--state DIR       directory of the saved events (default: that of the running daemon, else /var/lib/taut, or on OpenWrt /etc/taut/state)
--socket PATH     local socket of the daemon (default /run/taut/taut.sock)";

/// Time between two requests to the daemon with `-f`, 250 ms: short enough for a reader, and only four requests per second for the daemon.
const FOLLOW: Duration = Duration::from_millis(250);

/// Time between two attempts to reach a daemon that has ended, 1 s.
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    follow: bool,
    json: bool,
    /// Limit on the events that are shown at first.
    lines: Option<usize>,
    /// The events to record from now on.
    record: Option<String>,
    filter: Filter,
    state: Option<PathBuf>,
    socket: PathBuf,
}

/// The choice of the events that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    since: Option<Duration>,
    until: Option<Duration>,
    peer: Option<String>,
    area: Option<Area>,
    least: Option<Level>,
}

impl Filter {
    fn shows(&self, entry: &Entry) -> bool {
        self.since.is_none_or(|since| entry.time >= since)
            && self.until.is_none_or(|until| entry.time <= until)
            && self.peer.as_ref().is_none_or(|name| is_of(entry, name))
            && self.area.is_none_or(|area| entry.area == area.name())
            && self.least.is_none_or(|least| entry.level <= least)
    }
}

fn is_of(entry: &Entry, peer: &str) -> bool {
    entry.field("peer").is_some_and(|name| name.eq_ignore_ascii_case(peer))
}

/// The answer to `--record --json`.
#[derive(Serialize)]
struct Recorded<'a> {
    schema: u32,
    levels: &'a str,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let options = parse(words, taut_event::wall_clock())?;
    if let Some(levels) = &options.record {
        record(&options, levels)?;
        if !options.follow {
            return Ok(());
        }
    }
    let mut shown = Shown { options: &options, filter: options.filter.clone(), last: None, ended: false };
    match Client::connect(&options.socket) {
        Ok(mut client) => {
            let position = shown.begin(&mut client)?;
            if options.follow { follow(&mut shown, client, position) } else { Ok(()) }
        }
        Err(NoDaemon::Absent) => {
            let state = options.state.clone().unwrap_or_else(default_state);
            let saved = saved(&state)?;
            let (socket, state) = (options.socket.display(), state.display());
            output::complain(&match saved.is_empty() {
                true => format!("taut: no daemon answers on {socket}, and there are no events in {state}"),
                false => format!("taut: no daemon answers on {socket}; these are the events in {state}"),
            });
            shown.first(&saved, None)?;
            if options.follow { wait_and_follow(&mut shown) } else { Ok(()) }
        }
        Err(denied) => Err(denied.explain(&options.socket)),
    }
}

/// Sets the recorded events, and tells how to return to the former choice: the new one stays in force after this command.
fn record(options: &Options, levels: &str) -> Result<(), Fault> {
    let mut client = Client::open(&options.socket)?;
    let before = client.log(Some(u64::MAX))?.levels;
    client.change(&ApiRequest::LogLevel { levels: String::from(levels) })?;
    let text = format!(
        "the daemon records {levels} until it ends, also after this command; it recorded {before} before: `taut log --record {before}`"
    );
    match (options.follow, options.json) {
        (true, _) => output::complain(&format!("taut: {text}")),
        (false, true) => return output::print_json(&Recorded { schema: LOG_SCHEMA, levels }),
        (false, false) => return output::print(&text),
    }
    Ok(())
}

/// Returns the events that are saved on the disk. A file that cannot be read is reported if the other one has events, and is a failure otherwise.
pub(crate) fn saved(state: &Path) -> Result<Vec<String>, Fault> {
    let (lines, unread) = taut_control::saved_events(state, usize::MAX);
    let Some(error) = unread else { return Ok(lines) };
    if !lines.is_empty() {
        output::complain(&format!("taut: some events cannot be read: {error}"));
        return Ok(lines);
    }
    let message = format!("the events in {} cannot be read: {error}", state.display());
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "they are for root and the daemon's user: try again with sudo",
        _ => "name the right directory with --state",
    };
    Err(Fault::failed(message, hint))
}

/// Returns all events in the daemon's memory, and the last answer.
pub(crate) fn in_memory(client: &mut Client) -> Result<(Vec<String>, Box<LogPart>), Fault> {
    let (mut lines, mut from) = (Vec::new(), None);
    loop {
        let mut part = client.log(from)?;
        if part.lines.is_empty() {
            return Ok((lines, part));
        }
        lines.append(&mut part.lines);
        from = Some(part.next);
    }
}

fn parse(mut words: Words, now: Duration) -> Result<Options, Fault> {
    let mut options = Options { socket: default_socket(), ..Options::default() };
    let filter = &mut options.filter;
    while let Some(word) = words.next()? {
        let Word::Flag(flag) = &word else { return Err(unexpected(&word)) };
        match &flag[..] {
            "-f" | "--follow" => options.follow = true,
            "--json" => options.json = true,
            "-n" | "--lines" => options.lines = Some(count(flag, &words.value()?)?),
            "--since" => filter.since = Some(moment::parse(flag, &words.value()?, now)?),
            "--until" => filter.until = Some(moment::parse(flag, &words.value()?, now)?),
            "--peer" => filter.peer = Some(words.value()?),
            "--area" => filter.area = Some(area(&words.value()?)?),
            "--level" | "--priority" => filter.least = Some(level(flag, &words.value()?)?),
            "--record" => options.record = Some(flags::levels(flag, &words.value()?)?.to_string()),
            "--state" => options.state = Some(PathBuf::from(words.value()?)),
            "--socket" => options.socket = PathBuf::from(words.value()?),
            _ => return Err(unexpected(&word)),
        }
    }
    let chooses = *filter != Filter::default() || options.lines.is_some() || options.state.is_some();
    if options.record.is_some() && !options.follow && chooses {
        return Err(Fault::usage(
            "--record shows no events, so options that choose events have no effect; add -f to follow the log",
        ));
    }
    if options.follow && filter.until.is_some() {
        return Err(Fault::usage("-f shows new events, and --until excludes them"));
    }
    if filter.since.zip(filter.until).is_some_and(|(since, until)| since > until) {
        return Err(Fault::usage("--since is later than --until"));
    }
    Ok(options)
}

fn count(flag: &str, text: &str) -> Result<usize, Fault> {
    text.parse().map_err(|_| Fault::usage(format!("{flag} {text}: write a number of events")))
}

fn area(text: &str) -> Result<Area, Fault> {
    Area::of(text).ok_or_else(|| {
        let (names, meant) = (Area::names(), meant_events(text));
        Fault::usage(format!("--area: there is no area `{text}`{meant}; the areas are {names}"))
    })
}

fn level(flag: &str, text: &str) -> Result<Level, Fault> {
    Level::of(text).ok_or_else(|| {
        let meant = suggestion(text, LEVELS.into_iter());
        let is_record = text.parse::<taut_agent::log::Levels>().is_ok();
        let other = if is_record { "; to change what the daemon records, use --record" } else { "" };
        Fault::usage(format!("{flag} {text}: write {}{meant}{other}", LEVELS.join(", ")))
    })
}

/// A place in the log of one run of the daemon: the run, as process id and number, and the number of the next event.
type Position = ((u32, u64), u64);

/// Progress of the display: the events shown so far.
struct Shown<'a> {
    options: &'a Options,
    /// The choice of events, with the peer's name in the place of its address.
    filter: Filter,
    /// The last shown line that the daemon also saves on the disk.
    last: Option<String>,
    /// True if the reader has closed the pipe.
    ended: bool,
}

impl Shown<'_> {
    /// Shows the events on the disk and in the daemon's memory.
    fn begin(&mut self, client: &mut Client) -> Result<Position, Fault> {
        let named = client.log(Some(u64::MAX))?.state_dir;
        let named = Some(named).filter(|path| !path.is_empty()).map(PathBuf::from);
        let state = self.options.state.clone().or(named).unwrap_or_else(default_state);
        // The disk is read first: every line on it was in the memory before.
        let saved = saved(&state).unwrap_or_else(|fault| {
            output::complain(&format!("taut: {}; only those in the daemon's memory are shown", fault.message()));
            Vec::new()
        });
        let (memory, end) = in_memory(client)?;
        self.first(&merge::merge(&saved, &memory), Some(client))?;
        Ok(((end.pid, end.run), end.next))
    }

    /// Shows the chosen ones of the events that exist at the start, and says on standard error why no event, or not every event, is shown.
    fn first(&mut self, lines: &[String], client: Option<&mut Client>) -> Result<(), Fault> {
        if let Some(who) = self.filter.peer.take() {
            self.filter.peer = Some(self.peer(&who, lines, client)?);
        }
        let entries: Vec<Entry> = lines.iter().filter_map(|line| Entry::parse(line)).collect();
        let chosen = entries.iter().filter(|entry| self.filter.shows(entry)).count();
        let begin = self.filter.since.or(self.filter.until);
        if let Some(oldest) = entries.first().filter(|oldest| begin.is_some_and(|begin| begin < oldest.time))
            && oldest.field("previous") != Some("none")
        {
            output::complain(&format!("taut: events before {} are not kept any more", format_time(oldest.time)));
        }
        if chosen == 0 && !entries.is_empty() && !self.options.follow {
            output::complain("taut: no event matches");
        }
        self.lines(lines, chosen.saturating_sub(self.options.lines.unwrap_or(usize::MAX)))
    }

    /// Returns the name of the peer that the user means: one with events, or one in the network.
    fn peer(&self, who: &str, lines: &[String], client: Option<&mut Client>) -> Result<String, Fault> {
        let is_address = who.parse::<IpAddr>().is_ok();
        let name = if is_address { who } else { who.split_once('.').map_or(who, |(name, _)| name) };
        if lines.iter().any(|line| Entry::parse(line).is_some_and(|entry| is_of(&entry, name))) {
            return Ok(String::from(name));
        }
        let unknown = match client {
            Some(client) => match peers::find(&*client.status()?, who) {
                Ok(peer) => return Ok(peer.name.clone()),
                Err(fault) => fault,
            },
            None if is_address => Fault::failed(
                format!("no daemon tells which peer has the address {who}"),
                "give the peer's name, or start the daemon with `taut up`",
            ),
            None => Fault::failed(
                format!("there is no event of a peer `{who}`"),
                "`taut log` without --peer shows all events",
            ),
        };
        match self.options.follow && !is_address {
            // The peer may be added later.
            true => output::complain(&format!("taut: {}", unknown.message())),
            false => return Err(unknown),
        }
        Ok(String::from(name))
    }

    /// Shows the daemon's events from number `from` on. Returns the number from which the next request continues.
    fn catch_up(&mut self, client: &mut Client, mut from: u64) -> Result<u64, Fault> {
        loop {
            let part = client.log(Some(from))?;
            if part.missed > 0 {
                self.missed(part.missed)?;
            }
            self.lines(&part.lines, 0)?;
            if part.lines.is_empty() || self.ended {
                return Ok(part.next);
            }
            from = part.next;
        }
    }

    /// Shows the events of a restarted daemon: those after the last shown line, or those since its start if that line is not among them.
    fn catch_up_after_restart(&mut self, client: &mut Client) -> Result<Position, Fault> {
        let (lines, end) = in_memory(client)?;
        let is_first = |line: &String| Entry::parse(line).is_some_and(|entry| entry.event == "daemon-started");
        let known = lines.iter().rposition(|line| Some(line) == self.last.as_ref()).map(|place| place + 1);
        let first = known.or_else(|| lines.iter().rposition(is_first)).unwrap_or(0);
        self.lines(&lines[first..], 0)?;
        Ok(((end.pid, end.run), end.next))
    }

    /// Shows the chosen events, without the first `skipped` of them.
    fn lines(&mut self, lines: &[String], mut skipped: usize) -> Result<(), Fault> {
        for line in lines {
            let Some(entry) = Entry::parse(line) else { continue };
            if entry.level <= Level::Info {
                self.last = Some(line.clone());
            }
            if !self.filter.shows(&entry) {
                continue;
            }
            if skipped > 0 {
                skipped -= 1;
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
fn follow(shown: &mut Shown<'_>, mut client: Client, (run, mut next): Position) -> Result<(), Fault> {
    while !shown.ended {
        std::thread::sleep(FOLLOW);
        match shown.catch_up(&mut client, next) {
            Ok(after) => next = after,
            Err(fault) => {
                let Ok(again) = Client::connect(&shown.options.socket) else { return wait_and_follow(shown) };
                client = again;
                // If the daemon is still the same, its refusal is an error. A new daemon numbers its events from the start.
                let answer = client.log(Some(next))?;
                if (answer.pid, answer.run) == run {
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
mod tests;
