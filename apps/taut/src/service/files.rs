//! The files of a service: those of `dist/`, with the path of the program, and the links by which a service manager starts it at boot.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use super::below;
use super::manager::Manager;

/// First line of each file that `taut service install` writes. A file without this line belongs to somebody else, and is neither replaced nor removed.
pub(super) const MARK: &str = "# Written by `taut service install`";
/// The path of the program in the files of `dist/`: systemd and OpenRC, and OpenWrt.
const PROGRAMS: [&str; 2] = ["/usr/local/bin/taut", "PROGRAM=/usr/bin/taut"];
/// Mode of a script, and of another file.
const SCRIPT: u32 = 0o755;
const PLAIN: u32 = 0o644;

/// The origin of an installed service, as `taut service status` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Origin {
    Package,
    TautService,
    Other,
}

/// A file of a service.
pub(super) struct ServiceFile {
    pub(super) path: &'static str,
    text: String,
    mode: u32,
    /// True for a file that users change: it is written where there is none, and stays.
    pub(super) is_config: bool,
}

/// The result of writing one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    New,
    Changed,
    Same,
    Kept,
}

/// A file of `dist/`, and where it is installed.
macro_rules! source {
    ($from:literal, $to:literal, $mode:ident, $config:literal) => {
        ($to, include_str!(concat!("../../../../dist/", $from)), $mode, $config)
    };
}

type Source = (&'static str, &'static str, u32, bool);

const SYSTEMD: &[Source] = &[
    source!("systemd/taut.service", "/etc/systemd/system/taut.service", PLAIN, false),
    source!("systemd/taut@.service", "/etc/systemd/system/taut@.service", PLAIN, false),
    source!("systemd/taut-dns.socket", "/etc/systemd/system/taut-dns.socket", PLAIN, false),
    source!("systemd/taut-dns@.service", "/etc/systemd/system/taut-dns@.service", PLAIN, false),
    source!("systemd/taut-kill-switch.service", "/etc/systemd/system/taut-kill-switch.service", PLAIN, false),
];
const OPENRC: &[Source] = &[
    source!("openrc/init.d/taut", "/etc/init.d/taut", SCRIPT, false),
    source!("openrc/init.d/taut-kill-switch", "/etc/init.d/taut-kill-switch", SCRIPT, false),
    source!("openrc/conf.d/taut", "/etc/conf.d/taut", PLAIN, true),
];
const PROCD: &[Source] = &[
    source!("openwrt/taut.init", "/etc/init.d/taut", SCRIPT, false),
    source!("openwrt/taut.config", "/etc/config/taut", PLAIN, true),
    source!("openwrt/taut.keep", "/lib/upgrade/keep.d/taut", PLAIN, false),
    source!("openwrt/taut.firewall", "/etc/uci-defaults/70-taut", SCRIPT, false),
];

/// Returns the files for a manager, which start `program`. The first one is the service itself.
pub(super) fn files(manager: Manager, program: &Path) -> Vec<ServiceFile> {
    let sources = match manager {
        Manager::Systemd => SYSTEMD,
        Manager::Openrc => OPENRC,
        Manager::Procd => PROCD,
    };
    let make = |(path, text, mode, is_config): &Source| {
        let text = if *is_config { String::from(*text) } else { marked(text, program) };
        ServiceFile { path, text, mode: *mode, is_config: *is_config }
    };
    sources.iter().map(make).collect()
}

/// Returns a text with the mark instead of its first comment, which is for people who install the file by hand.
fn marked(text: &str, program: &Path) -> String {
    let (shebang, rest) = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => (format!("{first}\n"), rest),
        _ => (String::new(), text),
    };
    let start = rest.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    let rest = rest.get(start..).unwrap_or_default();
    let shown = program.display();
    let rest = rest.replace(PROGRAMS[0], &shown.to_string()).replace(PROGRAMS[1], &format!("PROGRAM={shown}"));
    format!("{shebang}{MARK}, which replaces it; `taut service uninstall` removes it.\n{rest}")
}

/// Returns the links that have a manager start the service of a network at boot, with their targets. The first one is that of the service itself.
pub(super) fn links(manager: Manager, network: Option<&str>) -> Vec<(String, String)> {
    let link = |at: &str, to: &str| (String::from(at), String::from(to));
    let wants = "/etc/systemd/system/multi-user.target.wants";
    match (manager, network) {
        (Manager::Systemd, Some(name)) => {
            vec![link(&format!("{wants}/taut@{name}.service"), "/etc/systemd/system/taut@.service")]
        }
        (Manager::Systemd, None) => vec![
            link(&format!("{wants}/taut.service"), "/etc/systemd/system/taut.service"),
            link(
                "/etc/systemd/system/sysinit.target.wants/taut-kill-switch.service",
                "/etc/systemd/system/taut-kill-switch.service",
            ),
        ],
        (Manager::Openrc, Some(name)) => vec![
            link(&format!("/etc/runlevels/default/taut.{name}"), &format!("/etc/init.d/taut.{name}")),
            link(&format!("/etc/init.d/taut.{name}"), "taut"),
        ],
        (Manager::Openrc, None) => vec![
            link("/etc/runlevels/default/taut", "/etc/init.d/taut"),
            link("/etc/runlevels/boot/taut-kill-switch", "/etc/init.d/taut-kill-switch"),
        ],
        // As `/etc/init.d/taut enable` makes them, from START and STOP of the script.
        (Manager::Procd, _) => {
            vec![link("/etc/rc.d/S18taut", "../init.d/taut"), link("/etc/rc.d/K89taut", "../init.d/taut")]
        }
    }
}

/// Returns the other networks of the system below `root` whose services start at boot.
pub(super) fn other_networks(manager: Manager, root: &Path) -> Vec<String> {
    let (folder, start, end) = match manager {
        Manager::Systemd => ("/etc/systemd/system/multi-user.target.wants", "taut@", ".service"),
        Manager::Openrc => ("/etc/runlevels/default", "taut.", ""),
        Manager::Procd => return Vec::new(),
    };
    let names = fs::read_dir(below(root, folder)).into_iter().flatten().filter_map(Result::ok);
    let names = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(String::from(name.strip_prefix(start)?.strip_suffix(end)?))
    });
    names.filter(|name| crate::chosen::is_name(name)).collect()
}

/// Writes a file. It is whole at any moment: a boot in between finds the former one or this one.
pub(super) fn write(path: &Path, file: &ServiceFile) -> io::Result<Written> {
    let former = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match &former {
        Some(_) if file.is_config => return Ok(Written::Kept),
        Some(text) if *text == file.text => return Ok(Written::Same),
        _ => {}
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("taut-new");
    fs::write(&new, &file.text)?;
    fs::set_permissions(&new, Permissions::from_mode(file.mode))?;
    fs::rename(&new, path)?;
    Ok(if former.is_some() { Written::Changed } else { Written::New })
}

/// Makes a link, in place of another one.
pub(super) fn link(path: &Path, target: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if path.is_symlink() {
        fs::remove_file(path)?;
    }
    std::os::unix::fs::symlink(target, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_starts_the_program_and_has_the_mark_behind_its_first_line() {
        for manager in [Manager::Systemd, Manager::Openrc, Manager::Procd] {
            let files = files(manager, Path::new("/opt/taut"));
            for file in files.iter().filter(|file| !file.is_config) {
                let at = file.text.find(MARK).unwrap();
                assert!(
                    at == 0 || file.text.starts_with("#!") && file.text.find('\n') == Some(at - 1),
                    "{}",
                    file.path
                );
                assert!(!PROGRAMS.iter().any(|program| file.text.contains(program)), "{}", file.path);
            }
            assert!(files[0].text.contains("/opt/taut"), "{}", files[0].path);
            let own = links(manager, None);
            assert!(
                own.iter()
                    .all(|(_, target)| files.iter().any(|file| file.path.ends_with(target.trim_start_matches(".."))))
            );
        }
    }

    #[test]
    fn the_order_at_boot_is_that_of_the_script() {
        let script = &files(Manager::Procd, Path::new("/taut"))[0].text;
        let links = links(Manager::Procd, None);
        for (letter, name) in [("S", "START"), ("K", "STOP")] {
            let number = script.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap();
            assert!(links.iter().any(|(link, _)| *link == format!("/etc/rc.d/{letter}{number}taut")));
        }
    }
}
