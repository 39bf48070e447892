//! The verbs of the command line: name, usage, help and function of each.

#[cfg(feature = "config")]
use crate::config;
use crate::fault::{Fault, suggestion};
use crate::flags::Words;
#[cfg(feature = "service")]
use crate::service;
#[cfg(feature = "update")]
use crate::update;
#[cfg(feature = "wg")]
use crate::wg;
use crate::{
    accept, bugreport, daemon, down, flag_texts, hosts, ip, kill_switch, leave, log, metrics, netcheck, networks,
    output, ping, rotate_key, set, status, up, version, why, without,
};

/// A verb of the command line.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// One line for the overview.
    summary: &'static str,
    /// The arguments in the usage line.
    arguments: &'static str,
    /// The paragraphs below the usage line, in parts.
    details: &'static [&'static str],
    run: fn(Words) -> Result<(), Fault>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "up",
        summary: "connect; with a token, join a network first",
        arguments: up::ARGUMENTS,
        details: &[up::DETAILS, flag_texts::PLACES, flag_texts::SETTINGS],
        run: up::run,
    },
    Verb {
        name: "down",
        summary: "disconnect until the next `taut up`",
        arguments: "[--json] [--socket PATH] [--timeout TIME]",
        details: &[
            "Removes the TUN device with its addresses and routes, and ends a daemon that `taut up` started.\n\n\
                  --timeout TIME   longest wait for the daemon (default 10s)",
        ],
        run: down::run,
    },
    Verb {
        name: "leave",
        summary: "leave the network and delete the keys",
        arguments: leave::ARGUMENTS,
        details: &[leave::DETAILS],
        run: leave::run,
    },
    Verb {
        name: "status",
        summary: "show this node, its peers and the paths to them",
        arguments: "[--json] [--socket PATH]",
        details: &[status::DETAILS],
        run: status::run,
    },
    Verb {
        name: "set",
        summary: "list the settings, or change some of the running daemon and keep them",
        arguments: set::ARGUMENTS,
        details: &[set::DETAILS, flag_texts::SETTINGS],
        run: set::run,
    },
    #[cfg(feature = "config")]
    Verb {
        name: "config",
        summary: "check the configuration file, and show where each setting comes from",
        arguments: config::ARGUMENTS,
        details: &[config::DETAILS],
        run: config::run,
    },
    Verb {
        name: "kill-switch",
        summary: "show what keeps packets from leaving in the clear, open it for a while, or remove it",
        arguments: kill_switch::ARGUMENTS,
        details: &[kill_switch::DETAILS],
        run: kill_switch::run,
    },
    Verb {
        name: "accept",
        summary: "accept new overlay prefixes from the coordinator",
        arguments: accept::ARGUMENTS,
        details: &[accept::DETAILS],
        run: accept::run,
    },
    Verb {
        name: "rotate-key",
        summary: "replace this node's WireGuard key without losing a packet",
        arguments: rotate_key::ARGUMENTS,
        details: &[rotate_key::DETAILS],
        run: rotate_key::run,
    },
    Verb {
        name: "ping",
        summary: "send echo requests through the overlay and show the path of each reply",
        arguments: ping::ARGUMENTS,
        details: &[ping::DETAILS],
        run: ping::run,
    },
    Verb {
        name: "why",
        summary: "explain the path to a peer: direct or relayed, why, and how to fix it",
        arguments: why::ARGUMENTS,
        details: &[why::DETAILS],
        run: why::run,
    },
    Verb {
        name: "netcheck",
        summary: "test the network of this host: UDP, NAT, IPv6, relays",
        arguments: netcheck::ARGUMENTS,
        details: &[netcheck::DETAILS],
        run: netcheck::run,
    },
    Verb {
        name: "log",
        summary: "show what happened, also before a crash, or follow it",
        arguments: log::ARGUMENTS,
        details: &[log::DETAILS],
        run: log::run,
    },
    Verb {
        name: "bugreport",
        summary: "write one archive with events, status, paths and facts of this host",
        arguments: bugreport::ARGUMENTS,
        details: &[bugreport::DETAILS],
        run: bugreport::run,
    },
    Verb {
        name: "hosts",
        summary: "print the names of the network in the format of /etc/hosts",
        arguments: hosts::ARGUMENTS,
        details: &[hosts::DETAILS],
        run: hosts::run,
    },
    Verb {
        name: "ip",
        summary: "print overlay addresses",
        arguments: "[PEER] [-4|-6] [--json] [--socket PATH]",
        details: &["Prints the addresses of this node, or of PEER, one per line.\n\n\
                  -4   only the IPv4 address\n\
                  -6   only the IPv6 address"],
        run: ip::run,
    },
    Verb {
        name: "networks",
        summary: "list the networks of this host",
        arguments: networks::ARGUMENTS,
        details: &[networks::DETAILS],
        run: networks::run,
    },
    Verb {
        name: "metrics",
        summary: "print the daemon's metrics in the Prometheus text format",
        arguments: "[--socket PATH]",
        details: &["`taut daemon --metrics PORT` serves them to Prometheus on http://127.0.0.1:PORT/metrics."],
        run: metrics::run,
    },
    Verb {
        name: "daemon",
        summary: "run the daemon in the foreground",
        arguments: daemon::ARGUMENTS,
        details: &[daemon::DETAILS, flag_texts::PLACES, flag_texts::SETTINGS],
        run: daemon::run,
    },
    #[cfg(feature = "service")]
    Verb {
        name: "service",
        summary: "have the service manager of this host start the daemon",
        arguments: service::ARGUMENTS,
        details: &[service::DETAILS],
        run: service::run,
    },
    #[cfg(feature = "update")]
    Verb {
        name: "update",
        summary: "tell whether a newer release exists, or install it",
        arguments: update::ARGUMENTS,
        details: &[update::DETAILS],
        run: update::run,
    },
    #[cfg(feature = "wg")]
    Verb {
        name: "wg",
        summary: "run a userspace WireGuard interface, configured with `wg`",
        arguments: wg::ARGUMENTS,
        details: &[wg::DETAILS],
        run: wg::run,
    },
    Verb {
        name: "version",
        summary: "print the versions of this program and of the running daemon",
        arguments: "[--json] [--socket PATH]",
        details: &[],
        run: version::run,
    },
];

impl Verb {
    pub(crate) fn usage(&self) -> String {
        format!("taut {} {}", self.name, self.arguments)
    }

    /// Returns the long flags that its help names.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let words = self
            .arguments
            .split(move |letter| !is_part(letter))
            .chain(self.details.iter().flat_map(move |part| part.split(move |letter| !is_part(letter))));
        words.filter(|word| word.starts_with("--")).chain(["--help"])
    }

    /// Adds this verb's name and usage line to a usage error that lacks them.
    fn explain(&self, fault: Fault) -> Fault {
        let message = match fault {
            Fault::Usage { message, usage } if usage.is_empty() => message,
            Fault::UnknownFlag(flag) => format!("there is no flag `{flag}`{}", suggestion(&flag, self.flags())),
            other => return other,
        };
        Fault::Usage { message: format!("{}: {message}", self.name), usage: self.usage() }
    }

    pub(crate) fn help(&self) -> String {
        let end = if self.details.is_empty() { "" } else { "\n\n" };
        format!("taut {}: {}\n\nusage: {}{end}{}", self.name, self.summary, self.usage(), self.details.concat())
    }
}

/// Runs the verb `name`.
pub(crate) fn run(name: &str, words: Words) -> Result<(), Fault> {
    let verb = find(name)?;
    #[cfg(not(feature = "config"))]
    if !matches!(name, "daemon" | "up" | "version") {
        crate::config_file::ConfigFile::complain();
    }
    match (verb.run)(words) {
        Err(Fault::Help) => output::print(&verb.help()),
        result => result.map_err(|fault| verb.explain(fault)),
    }
}

/// Returns the verb `name`. Fails with another reason if this build was made without it.
pub(crate) fn find(name: &str) -> Result<&'static Verb, Fault> {
    let names = || VERBS.iter().map(|verb| verb.name).chain(["help"]);
    let unknown = || without::verb(name).unwrap_or_else(|| Fault::unknown_verb(name, names()));
    VERBS.iter().find(|verb| verb.name == name).ok_or_else(unknown)
}

/// Returns the overview of all verbs, one per line.
pub(crate) fn overview() -> String {
    let lines: String = VERBS.iter().map(|verb| format!("  {:<12}{}\n", verb.name, verb.summary)).collect();
    let file = if cfg!(feature = "config") {
        [", TAUT_SOCKET and TAUT_CONFIG", ", --socket and --config"]
    } else {
        [" and TAUT_SOCKET", " and --socket"]
    };
    format!(
        "taut: a peer-to-peer encrypted overlay network that speaks WireGuard\n\n\
         usage: taut VERB [FLAGS]\n\n{lines}  help      [VERB] print this, or the help of a verb\n\n\
         Flags of most verbs:\n  --json         print one JSON object, with a schema version\n  --socket PATH  local socket of the daemon (default /run/taut/taut.sock)\n  --network NAME another network of this host: see `taut help networks`\n\n\
         Exit status: 0 success, 1 failure, 2 usage error. With --json, a failure is also an object: {{\"schema\":1,\"error\":{{\"message\",\"hint\"}}}}.\n\
         Environment: TAUT_AUTHKEY, TAUT_STATE_DIR{} set --auth-key, --state{}; TAUT_LANES, TAUT_MTU and so on the daemon's settings.",
        file[0], file[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_listed_and_explained() {
        for verb in VERBS {
            assert!(overview().contains(verb.summary));
            assert!(find(verb.name).unwrap().help().contains(&verb.usage()));
            assert!(verb.help().lines().all(|line| line.chars().count() <= 160), "{}", verb.name);
        }
        assert!(matches!(find("fly"), Err(Fault::Usage { .. })));
    }

    #[test]
    fn no_text_names_what_the_build_lacks() {
        let texts: String = VERBS.iter().map(Verb::help).chain([overview()]).collect();
        for (is_built, words) in [
            (cfg!(feature = "config"), &["TAUT_CONFIG", "--config", "/etc/taut/taut.toml", "/etc/taut/NAME.toml"][..]),
            (cfg!(feature = "aes"), &["AES256GCM", "AEGIS256X4"]),
            (cfg!(feature = "portmap"), &["PCP, NAT-PMP, UPnP"]),
            (cfg!(feature = "userspace"), &["--socks5", "`userspace`"]),
        ] {
            let wrong: Vec<_> = words.iter().filter(|word| texts.contains(**word) != is_built).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn a_mistyped_word_is_recognised() {
        let message = |fault: Fault| match fault {
            Fault::Usage { message, .. } => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(find("staus").map_err(message).err().unwrap(), "there is no verb `staus`; did you mean `status`?");
        assert_eq!(find("fly").map_err(message).err().unwrap(), "there is no verb `fly`");
        let status = find("status").unwrap();
        let unknown = |flag: &str| message(status.explain(Fault::UnknownFlag(String::from(flag))));
        assert_eq!(unknown("--jsno"), "status: there is no flag `--jsno`; did you mean `--json`?");
        assert_eq!(unknown("--hlep"), "status: there is no flag `--hlep`; did you mean `--help`?");
        assert_eq!(unknown("--fast"), "status: there is no flag `--fast`");
        assert!(find("up").unwrap().flags().any(|flag| flag == "--hostname"));
    }
}
