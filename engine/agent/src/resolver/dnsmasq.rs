//! dnsmasq, as a service of the host or under NetworkManager: a file in its directory of settings, and a restart.

use std::fs;
use std::path::{Path, PathBuf};

use super::hook::Hook;
use super::marks::{mark, owner};
use super::{Wanted, care, command, processes};
use crate::api::{Failure, ResolverBackEnd};

/// The directory of NetworkManager's dnsmasq.
const OF_NETWORK_MANAGER: &str = "/etc/NetworkManager/dnsmasq.d";
/// The directory of Debian's service, which it reads beside the settings in its command line.
const OF_DEBIAN: &str = "/etc/dnsmasq.d";
/// The file that has dnsmasq's settings unless its command line names another one.
const SETTINGS: &str = "/etc/dnsmasq.conf";
/// The beginning and the end of the name of our file; the device is between them, because each network of a host has a daemon.
const FILE: (&str, &str) = ("taut-", ".conf");

/// A dnsmasq of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsmasqPlace {
    /// Directory in which it reads all files.
    pub(super) directory: PathBuf,
    /// Whether NetworkManager started it.
    pub(super) of_network_manager: bool,
}

impl DnsmasqPlace {
    /// Returns the dnsmasq with this directory; `None` if others than root can write to it, and so choose what a file of ours would overwrite.
    fn at(directory: &str) -> Option<Self> {
        let of_network_manager = directory == OF_NETWORK_MANAGER;
        care::of_root(Path::new(directory)).map(|directory| Self { directory, of_network_manager })
    }

    fn file(&self, interface: &str) -> PathBuf {
        self.directory.join([FILE.0, interface, FILE.1].concat())
    }

    /// Returns the files of helpers that do not run any more.
    fn left(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|file| file.path());
        let name =
            |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let named = files.filter(|path| name(path).starts_with(FILE.0) && name(path).ends_with(FILE.1));
        let owner_of = |path: &PathBuf| owner(&care::read_no_link(path)?);
        named.filter(|path| owner_of(path).is_some_and(|owner| !owner.is_running())).collect()
    }

    /// Has it read its settings again: on a signal it reads only names and servers.
    fn restart(&self) -> Result<(), String> {
        let run = |program: &str, words: &[&str]| command::run(program, words, "").map(drop);
        if self.of_network_manager {
            return run("nmcli", &["general", "reload", "dns-full"]);
        }
        if Path::new("/run/systemd/system").exists() {
            return run("systemctl", &["restart", "dnsmasq"]);
        }
        run("/etc/init.d/dnsmasq", &["restart"])
    }
}

/// Returns the dnsmasq that runs in this network namespace and has a directory of settings.
pub(super) fn find() -> Option<DnsmasqPlace> {
    let read = |path: &str| care::read_of_root(Path::new(path)).unwrap_or_default();
    let of = |user: &str| {
        let lines = processes::command_lines("dnsmasq", user);
        lines.iter().find_map(|words| DnsmasqPlace::at(&directory(words, read)?))
    };
    // NetworkManager names no user, and dnsmasq then takes `nobody`. Other programs do so, too, so such a one chooses no other directory.
    of("dnsmasq").or_else(|| of("nobody").filter(|place| place.of_network_manager))
}

/// Returns the directory of settings that a command line of dnsmasq names, or the file that it names.
fn directory(words: &[String], read: impl Fn(&str) -> String) -> Option<String> {
    // `-7 DIRECTORY,suffix to leave out,…`
    let plain = |value: &str| value.split(',').next().unwrap_or_default().trim().trim_end_matches('/').to_owned();
    let option = |long: &str, short: &str| {
        let next = words
            .iter()
            .zip(words.iter().skip(1))
            .find(|(word, _)| *word == short || *word == long)
            .map(|(_, value)| value.as_str());
        words.iter().find_map(|word| word.strip_prefix(long)?.strip_prefix('=')).or(next).map(plain)
    };
    option("--conf-dir", "-7").or_else(|| {
        let file = option("--conf-file", "-C").unwrap_or_else(|| String::from(SETTINGS));
        let text = read(&file);
        text.lines().find_map(|line| line.trim().strip_prefix("conf-dir=")).map(plain)
    })
}

/// The file in that directory.
pub(super) struct Dnsmasq {
    back_end: ResolverBackEnd,
    /// The dnsmasq that has our file, and the file.
    place: Option<(DnsmasqPlace, PathBuf)>,
}

impl Dnsmasq {
    pub(super) fn new(back_end: ResolverBackEnd) -> Self {
        Self { back_end, place: None }
    }
}

impl Hook for Dnsmasq {
    fn back_end(&self) -> ResolverBackEnd {
        self.back_end
    }

    fn apply(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        let failed = |error: String| {
            Failure::new(
                format!("dnsmasq did not take the network's name server: {error}"),
                format!(
                    "taut tries again automatically; or add `server=/{}/ADDRESS` to its settings by hand (docs/names.md)",
                    wanted.domain()
                ),
            )
        };
        let former = self.place.take().map(|(place, _)| place);
        let Some(place) = former.filter(|place| care::of_root(&place.directory).is_some()).or_else(find) else {
            return Err(failed(String::from("it does not run any more")));
        };
        let (text, path) = (settings(wanted), place.file(&wanted.interface));
        self.place = Some((place.clone(), path.clone()));
        if care::read_no_link(&path).is_some_and(|before| before == text) {
            return Ok(());
        }
        care::replace(&path, &text)
            .map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))?;
        place.restart().map_err(failed)
    }

    fn is_in_place(&mut self, wanted: &Wanted) -> bool {
        let file = self.place.as_ref().map(|(_, path)| path);
        file.is_some_and(|path| care::read_no_link(path).is_some_and(|text| text == settings(wanted)))
    }

    fn undo(&mut self) {
        if let Some((place, path)) = self.place.take() {
            remove(&place, &[path]);
        }
    }
}

/// Removes the files that a helper left which does not run any more.
pub(super) fn recover() {
    let known = [OF_NETWORK_MANAGER, OF_DEBIAN].map(DnsmasqPlace::at);
    // Some hosts have another directory.
    let running = known.iter().all(Option::is_none).then(find);
    for place in known.iter().chain(&running).flatten() {
        remove(place, &place.left());
    }
}

fn remove(place: &DnsmasqPlace, files: &[PathBuf]) {
    let removed = files.iter().filter(|path| fs::remove_file(path).is_ok()).count();
    if removed > 0 {
        // Nobody is left to tell if this fails.
        let _ = place.restart();
    }
}

/// Returns the text of our file.
fn settings(wanted: &Wanted) -> String {
    let mut lines = vec![mark()];
    for zone in &wanted.zones {
        lines.extend(wanted.servers.iter().map(|server| format!("server=/{zone}/{server}")));
        // Addresses of the overlay are private ones, which a dnsmasq with `stop-dns-rebind` removes from answers.
        lines.push(format!("rebind-domain-ok=/{zone}/"));
    }
    // Without a server, dnsmasq answers itself that there is no such name.
    lines.extend(wanted.shadows.iter().map(|shadow| format!("server=/{shadow}/")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::marks::Writer;
    use super::*;

    #[test]
    fn the_directory_of_settings_is_found_in_command_lines_and_files() {
        let find = |line: &str, file: &str| {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            directory(&words, |path| {
                if path == file { String::from("port=53\n conf-dir=/tmp/d/,*.conf\n") } else { String::new() }
            })
        };
        let debian =
            "dnsmasq -x /run/dnsmasq/dnsmasq.pid -u dnsmasq -7 /etc/dnsmasq.d,.dpkg-dist,.dpkg-old --local-service";
        assert_eq!(find(debian, "").as_deref(), Some("/etc/dnsmasq.d"));
        let network_manager = "dnsmasq --no-resolv --conf-file=/dev/null --conf-dir=/etc/NetworkManager/dnsmasq.d";
        assert_eq!(find(network_manager, "").as_deref(), Some(OF_NETWORK_MANAGER));
        assert_eq!(
            find("dnsmasq -C /var/etc/dnsmasq.conf.cfg -k", "/var/etc/dnsmasq.conf.cfg").as_deref(),
            Some("/tmp/d")
        );
        assert_eq!(find("dnsmasq", SETTINGS).as_deref(), Some("/tmp/d"));
        assert_eq!(find("dnsmasq --conf-file=/x", SETTINGS), None, "that file is not read");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        assert!(DnsmasqPlace::at("/etc").is_some_and(|place| !place.of_network_manager));
        assert_eq!(DnsmasqPlace::at(&std::env::temp_dir().display().to_string()), None);
        assert_eq!(DnsmasqPlace::at("etc"), None);
    }

    #[test]
    fn each_domain_has_its_server_and_may_have_private_addresses() {
        let wanted = Wanted {
            shadows: vec![String::from("taut.internal.lan")],
            ..Wanted::for_zones(&["taut.internal", "64.100.in-addr.arpa"])
        };
        let text = settings(&wanted);
        assert!(owner(&text).is_some_and(Writer::is_this));
        assert!(text.contains("\nserver=/taut.internal/100.64.0.0\nrebind-domain-ok=/taut.internal/\n"), "{text}");
        assert!(text.ends_with("rebind-domain-ok=/64.100.in-addr.arpa/\nserver=/taut.internal.lan/\n"));
    }
}
