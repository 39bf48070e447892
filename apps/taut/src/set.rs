//! `taut set`: lists the settings of the running daemon, or changes some and keeps them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use taut_agent::api::{ApiRequest, ApiResponse, Failure, SettingChange, SettingsStatus, Status};
use taut_agent::settings::{find, meant};

use crate::chosen;
use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flag_texts::file;
use crate::flags::{Word, Words, default_socket, take_setting, unexpected};
use crate::{output, ssh, table};

/// Longest wait until what was set is on the disk, 5 s.
const LONGEST_SAVE: Duration = Duration::from_secs(5);
/// Time between two questions about that, 5 ms.
const POLL: Duration = Duration::from_millis(5);

pub(crate) const ARGUMENTS: &str = "[--SETTING VALUE …] [--default SETTING]… [--cut-ssh] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = concat!(
    "\
Without a setting: lists all, with their values, and where these come from: a flag of the daemon, its environment (TAUT_NAME), `taut set`",
    file!(",\nthe file /etc/taut/taut.toml, ", "\n"),
    "\
or the default. The first of these that gives a value holds.

With settings: changes them in the running daemon, and keeps them for the next one: `taut set --log-level debug --accept-routes`.
No packet is lost; what belongs to the device, the sockets or the threads takes effect when the network starts again (`taut down`,
`taut up`), and the list says that it waits.

--default SETTING  keep no value for it any more
--cut-ssh          let the kill switch end the ssh session in which this command runs
--json             print the settings as an object, with a schema version

"
);

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let Options { socket, json, changes, cut_ssh } = parse(words)?;
    let mut client = match Client::connect(&socket) {
        Err(NoDaemon::Absent) if !changes.is_empty() => {
            let hint = if cfg!(feature = "config") {
                format!("run `taut up` first, or write `NAME = VALUE` lines into {}", chosen::config().display())
            } else {
                String::from("run `taut up` first, or write the setting into /etc/config/taut")
            };
            return Err(Fault::failed("no daemon runs that could keep a setting", hint));
        }
        connected => connected.map_err(|why| why.explain(&socket))?,
    };
    let request = if changes.is_empty() {
        ApiRequest::Settings
    } else {
        ApiRequest::Set { changes: changes.clone(), session: if cut_ssh { None } else { ssh::client() } }
    };
    let mut settings = ask(&mut client, &request)?;
    let deadline = Instant::now() + LONGEST_SAVE;
    while !settings.saved {
        if Instant::now() >= deadline {
            let hint = "they are in force and lost with the daemon; `taut status` shows what is wrong with the disk";
            return Err(Fault::failed("the settings are not kept yet: the state directory cannot be written", hint));
        }
        std::thread::sleep(POLL);
        settings = ask(&mut client, &ApiRequest::Settings)?;
    }
    if changes.iter().any(|change| change.name == "exit-node")
        && let Some(problem) = exit_problem(&*client.status()?)
    {
        output::complain(&format!("taut: {problem}"));
    }
    if json {
        return output::print_json(&*settings);
    }
    output::print(&text(&settings, &changes))
}

fn ask(client: &mut Client, request: &ApiRequest) -> Result<Box<SettingsStatus>, Fault> {
    match client.ask(request)? {
        Some(ApiResponse::Settings(settings)) => Ok(settings),
        Some(ApiResponse::Failed(failure)) => Err(failure.into()),
        Some(_) => Err(Fault::failed("the daemon gave an answer to another question", "restart the daemon")),
        None => Err(Fault::failed("the daemon ended before it answered", "start it with `taut up`")),
    }
}

/// Returns why the chosen exit node cannot be used. That one of several is still being looked for, or was not heard yet, is no news.
fn exit_problem(status: &Status) -> Option<&Failure> {
    let exit = status.exit.as_ref()?;
    let is_looking = exit.via.is_some() || exit.chosen == "auto" && !exit.candidates.is_empty();
    exit.problem.as_ref().filter(|_| !is_looking)
}

struct Options {
    socket: PathBuf,
    json: bool,
    changes: Vec<SettingChange>,
    /// True if the kill switch may end this ssh session.
    cut_ssh: bool,
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let mut options = Options { socket: default_socket(), json: false, changes: Vec::new(), cut_ssh: false };
    while let Some(word) = words.next()? {
        let flag = match &word {
            Word::Flag(flag) => flag,
            Word::Value(name) if find(name).is_some() => {
                return Err(Fault::usage(format!("`{name}` needs hyphens: `--{name} VALUE`")));
            }
            Word::Value(_) => return Err(unexpected(&word)),
        };
        let change = match flag.as_str() {
            "--json" => {
                options.json = true;
                continue;
            }
            "--cut-ssh" => {
                options.cut_ssh = true;
                continue;
            }
            "--socket" => {
                options.socket = PathBuf::from(words.value()?);
                continue;
            }
            "--default" => {
                let name = words.value()?;
                let unknown = || Fault::usage(format!("--default: there is no setting `{name}`{}", meant(&name)));
                SettingChange { name: String::from(find(&name).ok_or_else(unknown)?.name), value: None }
            }
            _ => {
                let Some((setting, value)) = take_setting(flag, &mut words)? else { return Err(unexpected(&word)) };
                let value = setting
                    .check(&value)
                    .map_err(|what| Fault::usage(format!("--{} {value}: {what}", setting.name)))?;
                SettingChange { name: String::from(setting.name), value: Some(value) }
            }
        };
        if options.changes.iter().any(|other| other.name == change.name) {
            return Err(Fault::usage(format!("{} is given twice", change.name)));
        }
        options.changes.push(change);
    }
    Ok(options)
}

/// Returns the table of settings: those that were changed, or all.
fn text(settings: &SettingsStatus, changes: &[SettingChange]) -> String {
    let is_shown = |name: &str| changes.is_empty() || changes.iter().any(|change| change.name == name);
    let rows = settings.settings.iter().filter(|setting| is_shown(&setting.name)).map(|setting| {
        let origin = setting.origin.as_deref().unwrap_or("default");
        let waits = if setting.waits { ", waits for the next start" } else { "" };
        vec![setting.name.clone(), setting.value.clone(), format!("{origin}{waits}")]
    });
    table::columns(&rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn changes(line: &str) -> Result<Vec<(String, Option<String>)>, Fault> {
        let options = parse(Words::new(line.split_whitespace().map(OsString::from)))?;
        Ok(options.changes.into_iter().map(|change| (change.name, change.value)).collect())
    }

    #[test]
    fn settings_are_named_like_the_flags_of_the_daemon() {
        let of = |name: &str, value: Option<&str>| (String::from(name), value.map(String::from));
        let given = changes("--lanes 4 --portmap=false --low-latency --no-ecn --default mtu --metrics 9288").unwrap();
        assert_eq!(
            given,
            [
                of("lanes", Some("4")),
                of("portmap", Some("false")),
                of("low-latency", Some("true")),
                of("ecn", Some("false")),
                of("mtu", None),
                of("metrics", Some("127.0.0.1:9288")),
            ]
        );
        for line in
            ["--lanes 99", "--lanes", "--default lane", "lanes", "--lanes 1 --default lanes", "--low-latency=maybe"]
        {
            assert!(matches!(changes(line), Err(Fault::Usage { .. })), "{line}");
        }
        assert!(matches!(changes("--speed 9"), Err(Fault::UnknownFlag(_))));
    }
}
