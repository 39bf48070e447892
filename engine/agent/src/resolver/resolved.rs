//! systemd-resolved: servers and routing domains of our link. They end with the link.

use std::fs;
use std::path::PathBuf;

use super::hook::Hook;
use super::{Wanted, command};
use crate::api::{Failure, ResolverBackEnd};

/// Directory in which systemd-resolved keeps the settings of each link, by the number of the interface, so that they outlive its restart.
const LINKS: &str = "/run/systemd/resolve/netif";

/// The link's settings.
#[derive(Default)]
pub(super) struct Resolved {
    interface: String,
}

impl Resolved {
    fn file(&self) -> Option<PathBuf> {
        let index = fs::read_to_string(format!("/sys/class/net/{}/ifindex", self.interface)).ok()?;
        Some(PathBuf::from(LINKS).join(index.trim()))
    }
}

impl Hook for Resolved {
    fn back_end(&self) -> ResolverBackEnd {
        ResolverBackEnd::SystemdResolved
    }

    fn apply(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        self.interface.clone_from(&wanted.interface);
        for arguments in settings(wanted) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            command::run("resolvectl", &arguments, "").map_err(|error| {
                Failure::new(
                    format!("systemd-resolved did not take the settings of {}: {error}", wanted.interface),
                    "see `systemctl status systemd-resolved`; taut tries again automatically",
                )
            })?;
        }
        Ok(())
    }

    fn is_in_place(&mut self, wanted: &Wanted) -> bool {
        // Without the file, as in a version that keeps none, nothing is known.
        let Some(text) = self.file().and_then(|path| fs::read_to_string(path).ok()) else { return true };
        let has = |part: &String| text.contains(part.as_str());
        wanted.servers.iter().all(|server| has(&server.to_string()))
            && wanted.zones.iter().chain(&wanted.shadows).all(has)
    }

    fn undo(&mut self) {
        // The link is gone already if the daemon ended.
        let _ = command::run("resolvectl", &["revert", &self.interface], "");
    }
}

/// Returns the words of each `resolvectl`. Domains come before servers: a link with servers and without domains would be asked for every name (fault H4).
fn settings(wanted: &Wanted) -> Vec<Vec<String>> {
    let words = |verb: &str, rest: Vec<String>| [vec![String::from(verb), wanted.interface.clone()], rest].concat();
    let one = |verb: &str, value: &str| words(verb, vec![String::from(value)]);
    // `~` marks a domain that routes questions and is not searched for names without a dot.
    let domains = wanted.zones.iter().enumerate().map(|(place, zone)| match place {
        0 if wanted.search => zone.clone(),
        _ => format!("~{zone}"),
    });
    // The link is asked for every name that no other link has a longer domain for.
    let rest = wanted.all.then(|| String::from("~."));
    let domains = domains.chain(rest).chain(wanted.shadows.iter().map(|shadow| format!("~{shadow}")));
    vec![
        one("default-route", if wanted.all { "yes" } else { "no" }),
        words("domain", domains.collect()),
        // The zone is not signed, and the public root proves that its top-level domain does not exist. The stub is asked over a TUN, where TLS protects nothing.
        one("dnssec", "no"),
        one("dnsovertls", "no"),
        one("llmnr", "no"),
        one("mdns", "no"),
        words("dns", wanted.servers.iter().map(ToString::to_string).collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_h1_the_link_is_asked_for_its_domains_only() {
        let mut wanted = Wanted {
            shadows: vec![String::from("taut.internal.lan")],
            ..Wanted::for_zones(&["home.taut.internal", "taut.internal"])
        };
        let lines = |wanted: &Wanted| settings(wanted).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        let all = lines(&wanted);
        assert_eq!(
            all[..2],
            ["default-route taut0 no", "domain taut0 ~home.taut.internal ~taut.internal ~taut.internal.lan"]
        );
        assert_eq!(all.last().unwrap(), "dns taut0 100.64.0.0", "servers come last");
        wanted.search = true;
        assert_eq!(lines(&wanted)[1], "domain taut0 home.taut.internal ~taut.internal ~taut.internal.lan");
        wanted.all = true;
        let all = lines(&wanted);
        assert_eq!(all[0], "default-route taut0 yes");
        assert!(all[1].ends_with("~taut.internal ~. ~taut.internal.lan"), "{all:?}");
    }
}
