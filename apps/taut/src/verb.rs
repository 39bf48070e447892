//! The verbs: name, usage, help, and the function that does it.

use crate::fault::Fault;
use crate::flags::Words;
use crate::{
    accept, bugreport, daemon, down, hosts, ip, leave, log, metrics, netcheck, output, ping, status, up, version, wg,
    why,
};

/// Something `taut` can be told to do.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// One line for the overview.
    summary: &'static str,
    /// What stands behind the name in the usage line.
    arguments: &'static str,
    /// The paragraphs below the usage line.
    details: &'static str,
    run: fn(Words) -> Result<(), Fault>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "up",
        summary: "connect, joining a network first when given a token",
        arguments: up::ARGUMENTS,
        details: up::DETAILS,
        run: up::run,
    },
    Verb {
        name: "down",
        summary: "disconnect, and stay so until the next `taut up`",
        arguments: "[--json] [--socket PATH] [--timeout TIME]",
        details: "Removes the TUN device with its addresses and routes. A daemon that `taut up` started ends.\n\n\
                  --timeout TIME   give up after this long (default 10s)",
        run: down::run,
    },
    Verb {
        name: "leave",
        summary: "give up the membership and the keys",
        arguments: leave::ARGUMENTS,
        details: leave::DETAILS,
        run: leave::run,
    },
    Verb {
        name: "status",
        summary: "show this node, its peers and the paths to them",
        arguments: "[--json] [--socket PATH]",
        details: status::DETAILS,
        run: status::run,
    },
    Verb {
        name: "accept",
        summary: "consent to other overlay prefixes, which the coordinator wants",
        arguments: accept::ARGUMENTS,
        details: accept::DETAILS,
        run: accept::run,
    },
    Verb {
        name: "ping",
        summary: "send echo requests through the overlay, and say by which path they went",
        arguments: ping::ARGUMENTS,
        details: ping::DETAILS,
        run: ping::run,
    },
    Verb {
        name: "why",
        summary: "say by which path packets go to a peer, why, and what would mend it",
        arguments: why::ARGUMENTS,
        details: why::DETAILS,
        run: why::run,
    },
    Verb {
        name: "netcheck",
        summary: "look at the network that this host is in: UDP, NAT, IPv6, relays",
        arguments: netcheck::ARGUMENTS,
        details: netcheck::DETAILS,
        run: netcheck::run,
    },
    Verb {
        name: "log",
        summary: "show what happened, also before a crash, or follow it",
        arguments: log::ARGUMENTS,
        details: log::DETAILS,
        run: log::run,
    },
    Verb {
        name: "bugreport",
        summary: "write one archive with events, status, paths and facts of this host",
        arguments: bugreport::ARGUMENTS,
        details: bugreport::DETAILS,
        run: bugreport::run,
    },
    Verb {
        name: "hosts",
        summary: "print the network's names as lines for /etc/hosts",
        arguments: hosts::ARGUMENTS,
        details: hosts::DETAILS,
        run: hosts::run,
    },
    Verb {
        name: "ip",
        summary: "print overlay addresses",
        arguments: "[PEER] [-4|-6] [--json] [--socket PATH]",
        details: "This node's addresses, or those of PEER, one per line.\n\n\
                  -4   only the IPv4 address\n\
                  -6   only the IPv6 address",
        run: ip::run,
    },
    Verb {
        name: "metrics",
        summary: "print the daemon's figures as Prometheus reads them",
        arguments: "[--socket PATH]",
        details: "Prometheus' text format. `taut daemon --metrics PORT` has a Prometheus fetch them by itself, from http://127.0.0.1:PORT/metrics.",
        run: metrics::run,
    },
    Verb {
        name: "daemon",
        summary: "run the daemon in the foreground",
        arguments: daemon::ARGUMENTS,
        details: daemon::DETAILS,
        run: daemon::run,
    },
    Verb {
        name: "wg",
        summary: "be a plain WireGuard interface that the stock `wg` configures",
        arguments: wg::ARGUMENTS,
        details: wg::DETAILS,
        run: wg::run,
    },
    Verb {
        name: "version",
        summary: "print the versions of this program and of the running daemon",
        arguments: "[--json] [--socket PATH]",
        details: "",
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
            .chain(self.details.split(move |letter| !is_part(letter)));
        words.filter(|word| word.starts_with("--")).chain(["--help"])
    }

    pub(crate) fn help(&self) -> String {
        let end = if self.details.is_empty() { "" } else { "\n\n" };
        format!("taut {}: {}\n\nusage: {}{end}{}", self.name, self.summary, self.usage(), self.details)
    }
}

/// Does what the verb called `name` does.
pub(crate) fn run(name: &str, words: Words) -> Result<(), Fault> {
    let verb = find(name)?;
    match (verb.run)(words) {
        Err(Fault::Help) => output::print(&verb.help()),
        result => result.map_err(|fault| fault.of(verb)),
    }
}

/// The verb called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Verb, Fault> {
    let names = || VERBS.iter().map(|verb| verb.name).chain(["help"]);
    VERBS.iter().find(|verb| verb.name == name).ok_or_else(|| Fault::unknown_verb(name, names()))
}

/// All verbs, one per line.
pub(crate) fn overview() -> String {
    let lines: String = VERBS.iter().map(|verb| format!("  {:<10}{}\n", verb.name, verb.summary)).collect();
    format!(
        "taut: a peer-to-peer encrypted overlay network that speaks WireGuard\n\n\
         usage: taut VERB [FLAGS]\n\n{lines}  help      [VERB] print this, or all about a verb\n\n\
         Exit status: 0 success, 1 failure, 2 usage error. With --json a failure is an object, too: {{\"schema\":1,\"error\":{{\"message\",\"hint\"}}}}.\n\
         Environment: TAUT_AUTHKEY, TAUT_STATE_DIR and TAUT_SOCKET stand for --auth-key, --state and --socket."
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
    fn a_mistyped_word_is_recognised() {
        let message = |fault: Fault| match fault {
            Fault::Usage { message, .. } => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(find("staus").map_err(message).err().unwrap(), "there is no verb `staus`; did you mean `status`?");
        assert_eq!(find("fly").map_err(message).err().unwrap(), "there is no verb `fly`");
        let status = find("status").unwrap();
        let unknown = |flag: &str| message(Fault::UnknownFlag(String::from(flag)).of(status));
        assert_eq!(unknown("--jsno"), "status: there is no flag `--jsno`; did you mean `--json`?");
        assert_eq!(unknown("--hlep"), "status: there is no flag `--hlep`; did you mean `--help`?");
        assert_eq!(unknown("--fast"), "status: there is no flag `--fast`");
        assert!(find("up").unwrap().flags().any(|flag| flag == "--hostname"));
    }
}
