//! `taut kill-switch`: shows, loads, opens or removes the rules that keep packets from leaving in the clear. They outlive the daemon, so all of it works without one.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use taut_agent::api::{ApiRequest, SCHEMA};
use taut_agent::kill_switch;
use taut_control::{forget_kill_switch, saved_kill_switch};

use crate::chosen;
use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, default_state, unexpected};
use crate::{networks, output, table};

pub(crate) const ARGUMENTS: &str =
    "[status | pause TIME | resume | load | remove] [--state DIR] [--socket PATH] [--json]";

pub(crate) const DETAILS: &str = "\
`taut set --kill-switch` switches it on: while an exit node is chosen, nothing leaves this host but the overlay's own packets, also when the
daemon crashes or does not run. `taut down`, `taut set --exit-node none` and `taut set --kill-switch=false` end it.

status       whether it is in force, what it dropped, and what to do if it is in the way (default)
pause TIME   open it for at most an hour, such as 5m, to sign in at a captive portal: packets leave in the clear. It closes by itself
resume       close it now
load         put it in force if it was when the host was switched off; a service of the package does that before the network starts
remove       remove it where no daemon runs; a daemon that runs would put it back

--state DIR  state directory of the daemon (default /var/lib/taut, or on OpenWrt /etc/taut/state; `load` and `status` without it: those of all networks)
--json       print an object, with a schema version";

/// The task that the command line of `taut kill-switch` names.
enum Task {
    Status,
    Pause(Duration),
    Resume,
    Load,
    Remove,
}

/// A network of this host.
struct Place {
    state: PathBuf,
    socket: PathBuf,
    device: String,
    /// Whether the daemon had the switch in force last.
    is_saved: bool,
}

#[derive(Serialize)]
struct Shown {
    schema: u32,
    kill_switches: Vec<ShownSwitch>,
}

#[derive(Serialize)]
struct ShownSwitch {
    device: String,
    in_force: bool,
    /// Whether it is chosen, and waits for the choice of an exit node.
    waits: bool,
    /// Whether it is loaded at the next boot.
    at_boot: bool,
    dropped: u64,
    paused_s: Option<f64>,
    daemon_runs: bool,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut task, mut json) = (None, false);
    let (mut state, mut socket) = (None, None);
    while let Some(word) = words.next()? {
        let chosen = match &word {
            Word::Flag(flag) if flag == "--json" => {
                json = true;
                continue;
            }
            Word::Flag(flag) if flag == "--state" => {
                state = Some(PathBuf::from(words.value()?));
                continue;
            }
            Word::Flag(flag) if flag == "--socket" => {
                socket = Some(PathBuf::from(words.value()?));
                continue;
            }
            Word::Value(word) if word == "status" => Task::Status,
            Word::Value(word) if word == "pause" => Task::Pause(time(&mut words)?),
            Word::Value(word) if word == "resume" => Task::Resume,
            Word::Value(word) if word == "load" => Task::Load,
            Word::Value(word) if word == "remove" => Task::Remove,
            other => return Err(unexpected(other)),
        };
        if task.replace(chosen).is_some() {
            return Err(Fault::usage("give one of status, pause, resume, load and remove"));
        }
    }
    let is_one = state.is_some() || socket.is_some() || chosen::network().is_some();
    let own = Place::new(
        state.unwrap_or_else(default_state),
        socket.unwrap_or_else(default_socket),
        chosen::network().map_or_else(|| String::from("taut0"), chosen::interface),
    );
    match task.unwrap_or(Task::Status) {
        Task::Status => show(&all(own, is_one), json),
        Task::Load => {
            load(&all(own, is_one)).and_then(|places| show(&places, json))?;
            // A build that reads no file must not end well where one may name the state directory with the kill switch.
            #[cfg(not(feature = "config"))]
            crate::config_file::ConfigFile::read(None)?;
            Ok(())
        }
        Task::Pause(time) => pause(own, Some(time)).and_then(|place| show(&[place], json)),
        Task::Resume => pause(own, None).and_then(|place| show(&[place], json)),
        Task::Remove => remove(own, json),
    }
}

fn time(words: &mut Words) -> Result<Duration, Fault> {
    let missing = || Fault::usage("pause: say for how long, such as `taut kill-switch pause 5m`");
    let Some(Word::Value(text)) = words.next()? else { return Err(missing()) };
    let time = taut_agent::settings::duration(&text).ok_or_else(missing)?;
    match time.as_secs() {
        0 => Err(missing()),
        _ if time > kill_switch::LONGEST_PAUSE => {
            Err(Fault::usage("pause: at most 1h; `taut set --kill-switch=false` ends it for good"))
        }
        _ => Ok(time),
    }
}

impl Place {
    fn new(state: PathBuf, socket: PathBuf, usual: String) -> Self {
        let saved = saved_kill_switch(&state);
        let (is_saved, device) = (saved.is_some(), saved.unwrap_or(usual));
        Self { state, socket, device, is_saved }
    }

    /// Returns true if its daemon has the setting and no exit node.
    fn waits(&self) -> bool {
        let status = Client::connect(&self.socket).ok().and_then(|mut client| client.status().ok());
        status.and_then(|status| status.kill_switch).is_some_and(|switch| switch.waits)
    }

    fn has_daemon(&self) -> bool {
        Client::connect(&self.socket).is_ok()
    }
}

/// Returns this network, or all networks of the host.
fn all(own: Place, is_one: bool) -> Vec<Place> {
    let further = networks::names().into_iter().filter(|_| !is_one);
    let further =
        further.map(|name| Place::new(chosen::state(Some(&name)), chosen::socket(&name), chosen::interface(&name)));
    std::iter::once(own).chain(further).collect()
}

fn failed(message: String) -> Fault {
    Fault::failed(message, "this needs root, and a kernel with nf_tables")
}

fn load(places: &[Place]) -> Result<Vec<Place>, Fault> {
    let saved = places.iter().filter(|place| place.is_saved);
    // One that fails must not keep the others from being loaded.
    let loaded: Vec<Result<Place, Fault>> = saved
        .map(|place| {
            kill_switch::load(&place.device).map_err(failed)?;
            Ok(Place::new(place.state.clone(), place.socket.clone(), place.device.clone()))
        })
        .collect();
    loaded.into_iter().collect()
}

/// Opens or closes the switch, and has the daemon lead packets beside the exit node meanwhile.
fn pause(place: Place, time: Option<Duration>) -> Result<Place, Fault> {
    if kill_switch::look(&place.device).map_err(failed)?.is_some() {
        kill_switch::pause(&place.device, time).map_err(failed)?;
    }
    if let Ok(mut client) = Client::connect(&place.socket) {
        client.change(&ApiRequest::PauseExit { seconds: time.map_or(0, |time| time.as_secs()) })?;
    }
    Ok(place)
}

fn remove(place: Place, json: bool) -> Result<(), Fault> {
    if place.has_daemon() {
        return Err(Fault::failed(
            "the daemon runs, and would put the kill switch back",
            "switch it off with `taut set --kill-switch=false`, or disconnect with `taut down`",
        ));
    }
    forget_kill_switch(&place.state).map_err(|error| failed(format!("{}: {error}", place.state.display())))?;
    let was_there = kill_switch::remove(&place.device).map_err(failed)?;
    if json {
        return show(&[Place { is_saved: false, ..place }], true);
    }
    output::print(if was_there {
        "the kill switch is removed until the daemon starts again: packets leave in the clear"
    } else {
        "the kill switch was not in force"
    })
}

fn show(places: &[Place], json: bool) -> Result<(), Fault> {
    let mut shown = Vec::new();
    for place in places {
        let in_force = kill_switch::look(&place.device).map_err(failed)?;
        if in_force.is_none() && !place.is_saved && places.len() > 1 {
            continue;
        }
        shown.push(ShownSwitch {
            device: place.device.clone(),
            in_force: in_force.is_some(),
            waits: in_force.is_none() && place.waits(),
            at_boot: place.is_saved,
            dropped: in_force.map_or(0, |seen| seen.dropped),
            paused_s: in_force.and_then(|seen| seen.paused).map(|left| left.as_secs_f64().round()),
            daemon_runs: place.has_daemon(),
        });
    }
    if json {
        return output::print_json(&Shown { schema: SCHEMA, kill_switches: shown });
    }
    let lines: Vec<String> = shown.iter().map(text).collect();
    output::print(&if lines.is_empty() { String::from("the kill switch is off") } else { lines.join("\n") })
}

fn text(shown: &ShownSwitch) -> String {
    let device = &shown.device;
    if !shown.in_force {
        return match shown.at_boot {
            true => format!(
                "{device}: the kill switch is not in force; `taut kill-switch load` or the daemon's start puts it there"
            ),
            false if shown.waits => format!(
                "{device}: the kill switch is set, and waits for an exit node; `taut set --exit-node NODE` puts it in force"
            ),
            false => format!("{device}: the kill switch is off"),
        };
    }
    let first = match shown.paused_s {
        Some(left) => {
            let left = table::fixed(left, 0);
            format!("{device}: the kill switch is open for {left} s more; `taut kill-switch resume` closes it now")
        }
        None => format!("{device}: the kill switch is in force, and dropped {} packets", shown.dropped),
    };
    match shown.daemon_runs {
        true => first,
        false => format!(
            "{first}\nThe daemon does not run, so this host has no network. Start its service, or run `taut up`, or give the switch up with `taut kill-switch remove`."
        ),
    }
}
