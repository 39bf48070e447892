//! `taut service`: has the service manager of this host start the daemon, where no package does.
//!
//! - this file: the command line, and what each command does;
//! - `manager`: the service managers, which one a host has, and its commands;
//! - `files`: what is installed for each of them, from the same files that packages have (`dist/`);
//! - `running`: the services that run now, for `taut update`.

mod files;
mod manager;
#[cfg(feature = "update")]
mod running;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use taut_agent::api::SCHEMA;

use crate::chosen;
use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{output, table};
use files::{MARK, Origin, Written, files, links, write};
use manager::Manager;
#[cfg(feature = "update")]
pub(crate) use running::Running;

pub(crate) const ARGUMENTS: &str = "[status | install | uninstall] [--manager NAME] [--no-start] [--root DIR] [--json]";

pub(crate) const DETAILS: &str = "\
Has systemd, OpenRC or procd (OpenWrt) start the daemon at boot and again after a crash, where no package does that.

status       whether a service is installed, by what, and whether it is enabled and runs (default)
install      write the files of the service, enable it at boot and start it; again, it only replaces what differs
uninstall    stop it, with all networks of this host, and remove those files; keys and settings stay (`taut leave` deletes the keys)

--manager NAME  systemd, openrc or procd, instead of the one that is found
--no-start   install: enable it, but do not start it now
--root DIR   work on the system below DIR, such as an image of a disk: nothing is started or stopped
--json       print an object, with a schema version

With --network NAME it is about another network of this host. Settings: `taut help config`.";

/// The parsed command line.
struct Options {
    task: Task,
    manager: Option<Manager>,
    start: bool,
    /// The system to work on; `None` for the running one.
    root: Option<PathBuf>,
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Status,
    Install,
    Uninstall,
}

/// The object that `install` and `uninstall` print with `--json`.
#[derive(Serialize)]
struct Done {
    schema: u32,
    manager: Manager,
    service: String,
    /// The changes that were made, in order.
    steps: Vec<Step>,
    /// Commands for the user to run next, each with its purpose.
    hints: Vec<String>,
}

#[derive(Serialize)]
struct Step {
    action: &'static str,
    what: String,
}

/// The object that `status` prints with `--json`.
#[derive(Serialize)]
struct ServiceStatus {
    schema: u32,
    manager: Manager,
    service: String,
    /// `package`, `taut-service`, `other` (by hand), or `null` if there is no service.
    installed_by: Option<Origin>,
    files: Vec<PathBuf>,
    enabled: bool,
    /// Whether the service manager runs it; `null` with `--root`.
    active: Option<bool>,
    /// Whether a daemon answers, started by whatever; `null` with `--root`.
    daemon_answers: Option<bool>,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let options = parse(words)?;
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let manager = match options.manager {
        Some(manager) => manager,
        None => Manager::find(root).ok_or_else(no_manager)?,
    };
    match options.task {
        Task::Status => show(&status(manager, &options), options.json),
        Task::Install => tell(&install(manager, root, &options)?, options.json),
        Task::Uninstall => tell(&uninstall(manager, root, &options)?, options.json),
    }
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let (mut task, mut options) =
        (None, Options { task: Task::Status, manager: None, start: true, root: None, json: false });
    while let Some(word) = words.next()? {
        let named = match &word {
            Word::Flag(flag) if flag == "--json" => {
                options.json = true;
                continue;
            }
            Word::Flag(flag) if flag == "--no-start" => {
                options.start = false;
                continue;
            }
            Word::Flag(flag) if flag == "--root" => {
                options.root = Some(PathBuf::from(words.value()?));
                continue;
            }
            Word::Flag(flag) if flag == "--manager" => {
                let name = words.value()?;
                let unknown = || Fault::usage(format!("--manager {name}: write systemd, openrc or procd"));
                options.manager = Some(Manager::of(&name).ok_or_else(unknown)?);
                continue;
            }
            Word::Value(word) if word == "status" => Task::Status,
            Word::Value(word) if word == "install" => Task::Install,
            Word::Value(word) if word == "uninstall" => Task::Uninstall,
            other => return Err(unexpected(other)),
        };
        if task.replace(named).is_some() {
            return Err(Fault::usage("give one of status, install and uninstall"));
        }
    }
    options.task = task.unwrap_or(Task::Status);
    Ok(options)
}

fn no_manager() -> Fault {
    Fault::failed(
        "no service manager that taut knows was found here: neither systemd nor OpenRC nor procd",
        "run `taut daemon` from the one that this host has, or `taut up`, which starts a daemon in the background",
    )
}

/// Returns `path` below `root`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn install(manager: Manager, root: &Path, options: &Options) -> Result<Done, Fault> {
    let network = chosen::network();
    if manager == Manager::Procd && network.is_some() {
        let hint = "add a section `config taut 'NAME'` to /etc/config/taut, and run `/etc/init.d/taut reload`";
        return Err(Fault::failed("procd starts all networks of a host by one service", hint));
    }
    let program = program(options.root.as_deref())?;
    check_visible(manager, &program)?;
    check_free(manager, root)?;
    let mut steps = Vec::new();
    for file in files(manager, &program) {
        let path = below(root, file.path);
        let action = match write(&path, &file).map_err(|error| denied("written", &path, &error))? {
            Written::New => "wrote",
            Written::Changed => "replaced",
            Written::Same => "unchanged",
            Written::Kept => "kept",
        };
        steps.push(Step { action, what: String::from(file.path) });
    }
    for (link, target) in links(manager, network) {
        let path = below(root, &link);
        let is_there = fs::read_link(&path).is_ok_and(|found| found == Path::new(&target));
        if !is_there {
            files::link(&path, &target).map_err(|error| denied("written", &path, &error))?;
        }
        steps.push(Step { action: if is_there { "unchanged" } else { "enabled" }, what: link });
    }
    let service = manager.service(network);
    let mut hints = Vec::new();
    if options.root.is_none() {
        start(manager, &service, options, &mut steps, &mut hints)?;
    }
    let below = options.root.as_ref().map_or_else(String::new, |root| format!(" --root {}", root.display()));
    hints.push(format!("undo it with `taut service uninstall{below}`"));
    Ok(Done { schema: SCHEMA, manager, service, steps, hints })
}

/// Has the service manager read the files, and starts the service unless the user does not want it or another daemon runs.
fn start(
    manager: Manager,
    service: &str,
    options: &Options,
    steps: &mut Vec<Step>,
    hints: &mut Vec<String>,
) -> Result<(), Fault> {
    if !manager.runs() {
        hints.push(format!("{manager} does not run at the moment; it starts the service at the next boot"));
        return Ok(());
    }
    manager.reload()?;
    if !options.start {
        hints.push(format!("start it with `{}`", manager.start_command(service)));
        return Ok(());
    }
    if manager.is_active(service) {
        hints.push(format!("it runs already; `{}` starts it with these files", manager.restart_command(service)));
        return Ok(());
    }
    if Client::connect(&default_socket()).is_ok() {
        hints.push(format!(
            "a daemon that is no service runs; end it with `taut down`, then `{}` and `taut up`",
            manager.start_command(service)
        ));
        return Ok(());
    }
    manager.start(service)?;
    steps.push(Step { action: "started", what: String::from(service) });
    Ok(())
}

fn uninstall(manager: Manager, root: &Path, options: &Options) -> Result<Done, Fault> {
    let network = chosen::network();
    let service = manager.service(network);
    if options.root.is_none()
        && let Some(path) = manager.packaged(root)
    {
        let message = format!("a package installed {}", path.display());
        return Err(Fault::failed(message, "remove the package with the package manager of this host"));
    }
    let mut steps = Vec::new();
    let others = if network.is_none() { files::other_networks(manager, root) } else { Vec::new() };
    let services = others.iter().map(|name| manager.service(Some(name))).chain([service.clone()]);
    if options.root.is_none() && manager.runs() {
        for service in services.filter(|service| manager.is_active(service)) {
            manager.stop(&service)?;
            steps.push(Step { action: "stopped", what: service });
        }
    }
    let links = others.iter().flat_map(|name| links(manager, Some(name))).chain(links(manager, network));
    for (link, _) in links {
        let path = below(root, &link);
        if path.is_symlink() {
            fs::remove_file(&path).map_err(|error| denied("removed", &path, &error))?;
            steps.push(Step { action: "disabled", what: link });
        }
    }
    if options.root.is_none() && manager.runs() && network.is_none() && !steps.is_empty() {
        manager.forget();
    }
    // The files serve all networks of the host.
    for file in files(manager, Path::new("")).iter().filter(|_| network.is_none()) {
        let path = below(root, file.path);
        let is_own = fs::read_to_string(&path).is_ok_and(|text| text.contains(MARK));
        if is_own {
            fs::remove_file(&path).map_err(|error| denied("removed", &path, &error))?;
            steps.push(Step { action: "removed", what: String::from(file.path) });
        }
    }
    if options.root.is_none() && manager.runs() {
        manager.reload()?;
    }
    let hints = match steps.is_empty() {
        true => vec![String::from("there was nothing of `taut service install`")],
        false => vec![String::from(
            "what is yours stays: settings, log, and the keys unless `taut leave` deleted them before",
        )],
    };
    Ok(Done { schema: SCHEMA, manager, service, steps, hints })
}

/// Refuses a program in a directory that the unit hides from its own service (`ProtectHome=`, `PrivateTmp=`): it could not be started.
fn check_visible(manager: Manager, program: &Path) -> Result<(), Fault> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    match hidden.into_iter().find(|folder| manager == Manager::Systemd && program.starts_with(folder)) {
        None => Ok(()),
        Some(folder) => Err(Fault::failed(
            format!(
                "{} is below {folder}, which the service does not see: it could not start this program",
                program.display()
            ),
            "copy it to /usr/local/bin/taut, and run `taut service install` from there; nothing was changed",
        )),
    }
}

/// Refuses to install beside a service that something else installed.
fn check_free(manager: Manager, root: &Path) -> Result<(), Fault> {
    if let Some(path) = manager.packaged(root) {
        let message = format!("a package installed {} already", path.display());
        let service = manager.service(chosen::network());
        return Err(Fault::failed(message, format!("enable it with `{}`", manager.enable_command(&service))));
    }
    for file in files(manager, Path::new("")).iter().filter(|file| !file.is_config) {
        let path = below(root, file.path);
        let is_other = fs::read_to_string(&path).map_or_else(|_| path.exists(), |text| !text.contains(MARK));
        if is_other {
            let message = format!("{} exists, and `taut service install` did not write it", path.display());
            return Err(Fault::failed(message, "keep using that one, or remove it and try again; nothing was changed"));
        }
    }
    Ok(())
}

/// Returns the program that the service starts, as the installed system sees it.
fn program(root: Option<&Path>) -> Result<PathBuf, Fault> {
    let found = match root {
        None => std::env::current_exe().ok(),
        Some(root) => {
            let usual = ["/usr/local/bin/taut", "/usr/bin/taut"];
            usual.into_iter().find(|path| below(root, path).exists()).map(PathBuf::from)
        }
    };
    let found = found.ok_or_else(|| {
        let hint = "copy the program to usr/local/bin/taut below it first";
        Fault::failed("there is no program `taut` in that system", hint)
    })?;
    let text = found.to_string_lossy();
    let is_plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._+-".contains(letter));
    // A replaced program is shown with ` (deleted)` behind its path.
    if is_plain && text.starts_with('/') {
        return Ok(found);
    }
    let message = format!("the path of this program, `{text}`, cannot be written into the files of a service");
    Err(Fault::failed(message, "copy it to /usr/local/bin/taut, and run it from there"))
}

fn denied(what: &str, path: &Path, error: &std::io::Error) -> Fault {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "try again with sudo",
        _ => "make the file system writable, or choose another one with --root",
    };
    Fault::failed(format!("{} cannot be {what}: {error}", path.display()), hint)
}

fn status(manager: Manager, options: &Options) -> ServiceStatus {
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let service = manager.service(chosen::network());
    let packaged = manager.packaged(root);
    let present: Vec<PathBuf> =
        files(manager, Path::new("")).iter().map(|file| below(root, file.path)).filter(|path| path.exists()).collect();
    let first = files(manager, Path::new("")).first().map(|file| below(root, file.path)).unwrap_or_default();
    let installed_by = match (&packaged, fs::read_to_string(&first)) {
        (Some(_), _) => Some(Origin::Package),
        (None, Ok(text)) if text.contains(MARK) => Some(Origin::TautService),
        (None, Ok(_)) => Some(Origin::Other),
        (None, Err(_)) => None,
    };
    let is_link = |(link, _): (String, String)| below(root, &link).is_symlink();
    let live = options.root.is_none();
    ServiceStatus {
        schema: SCHEMA,
        manager,
        installed_by,
        files: packaged.into_iter().chain(present).collect(),
        enabled: links(manager, chosen::network()).into_iter().next().is_some_and(is_link),
        active: live.then(|| manager.runs() && manager.is_active(&service)),
        daemon_answers: live.then(|| Client::connect(&default_socket()).is_ok()),
        service,
    }
}

fn show(status: &ServiceStatus, json: bool) -> Result<(), Fault> {
    if json {
        return output::print_json(status);
    }
    let yes = |value| String::from(if value { "yes" } else { "no" });
    let known = |value: Option<bool>| value.map_or_else(|| String::from("not looked at"), yes);
    let by = match status.installed_by {
        None => "no; `taut service install` does it",
        Some(Origin::Package) => "by a package",
        Some(Origin::TautService) => "by `taut service install`",
        Some(Origin::Other) => "by hand",
    };
    let rows = [
        ("manager", status.manager.to_string()),
        ("service", status.service.clone()),
        ("installed", String::from(by)),
        ("starts at boot", yes(status.enabled)),
        ("runs", known(status.active)),
        ("a daemon answers", known(status.daemon_answers)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![String::from(name), value]).collect();
    output::print(&table::columns(&rows))
}

fn tell(done: &Done, json: bool) -> Result<(), Fault> {
    if json {
        return output::print_json(done);
    }
    let rows: Vec<Vec<String>> =
        done.steps.iter().map(|step| vec![String::from(step.action), step.what.clone()]).collect();
    let hints: String = done.hints.iter().map(|hint| format!("{hint}\n")).collect();
    output::print(&format!("{}{hints}", table::columns(&rows)))
}
