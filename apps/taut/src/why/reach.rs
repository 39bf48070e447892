//! `taut why PEER --port PORT`: the policy's verdict on a connection, and the rule that decides.

use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_agent::api::{Reach, Why};
use taut_filter::{TCP, has_ports, protocol_name, protocol_number};
use taut_netmap::{Connection, PolicyPlace, Verdict};

use crate::client::Client;
use crate::fault::Fault;

/// Longest wait for the coordinator's answer, 5 s: it answers within a round trip.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause between two looks, 20 ms.
const LOOK: Duration = Duration::from_millis(20);

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Explained<'a> {
    #[serde(flatten)]
    pub(super) reach: &'a Reach,
    /// The path to the peer; `null` if this host sees no such peer.
    pub(super) path: Option<&'a Why>,
}

pub(super) fn port(word: &str) -> Result<u16, Fault> {
    let port = word.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Fault::usage(format!("`{word}` is not a port; give a number from 1 to 65535")))
}

pub(super) fn protocol(word: &str) -> Result<u8, Fault> {
    protocol_number(word).ok_or_else(|| {
        Fault::usage(format!("`{word}` is not a protocol; give tcp, udp, sctp, icmp or a number from 1 to 255"))
    })
}

/// Returns protocol and port from the options; `None` if the user asks only about the path.
pub(super) fn service(protocol: Option<u8>, port: Option<u16>) -> Result<Option<(u8, u16)>, Fault> {
    match (protocol, port) {
        (None, None) => Ok(None),
        (None, Some(port)) => Ok(Some((TCP, port))),
        (Some(protocol), None) if has_ports(protocol) => {
            Err(Fault::usage(format!("{} needs a port: add --port PORT", protocol_name(protocol))))
        }
        (Some(protocol), Some(_)) if !has_ports(protocol) => {
            Err(Fault::usage(format!("{} has no ports: leave --port out", protocol_name(protocol))))
        }
        (Some(protocol), port) => Ok(Some((protocol, port.unwrap_or(0)))),
    }
}

/// Asks until the coordinator has answered.
pub(super) fn ask(client: &mut Client, connection: &Connection) -> Result<Box<Reach>, Fault> {
    let end = Instant::now() + PATIENCE;
    loop {
        let reach = client.reach(connection)?;
        if reach.verdict.is_some() {
            return Ok(reach);
        }
        if Instant::now() >= end {
            let message = format!("the coordinator did not answer within {} s", PATIENCE.as_secs());
            return Err(Fault::failed(
                message,
                "one of release 0.1 knows no policies; otherwise try again, and see its log",
            ));
        }
        sleep(LOOK);
    }
}

/// Returns the verdict as text for people.
pub(super) fn render(reach: &Reach) -> Result<String, Fault> {
    let Connection { peer, protocol, port } = &reach.connection;
    let service =
        if *port > 0 { format!("{} port {port}", protocol_name(*protocol)) } else { protocol_name(*protocol) };
    let version = reach.policy_version.unwrap_or(0);
    let mut text = String::new();
    // Writing to a String cannot fail.
    match reach.verdict {
        Some(Verdict::Allowed) => {
            let _ = writeln!(text, "policy: {service} of {peer} is allowed");
            let by: Vec<String> = reach.rules.iter().map(place).collect();
            let _ = writeln!(text, "  by version {version}, {}", by.join(", "));
            let _ = writeln!(
                text,
                "  If it does not answer, the service is not running there, or a firewall of that host is in the way."
            );
        }
        Some(Verdict::Denied) => {
            let _ = writeln!(text, "policy: {service} of {peer} is denied to this host");
            let _ = match reach.rules.as_slice() {
                [] => writeln!(text, "  no rule of version {version} allows anything from this host to {peer}"),
                near => {
                    let near: Vec<String> = near.iter().map(place).collect();
                    writeln!(
                        text,
                        "  no rule of version {version} allows it; other ports or protocols are allowed by {}",
                        near.join(", ")
                    )
                }
            };
            let _ =
                writeln!(text, "  Whoever may change the policy sees these rules with `taut-coordinator policy show`.");
        }
        Some(Verdict::NoSuchPeer) => {
            let message = format!(
                "this host may know no node `{peer}`: either there is none, or version {version} of the policy lets neither of the two reach the other"
            );
            return Err(Fault::failed(message, "an admin of the network knows which, and can change the policy"));
        }
        Some(Verdict::Unknown) | None => {
            let message = "the coordinator's verdict is unknown to this program";
            return Err(Fault::failed(message, "use a newer `taut`"));
        }
    }
    Ok(text)
}

/// Returns the verdict on an address behind a router as text. A coordinator that names no way there is no error: the node has one.
pub(super) fn render_behind(reach: &Reach) -> Result<String, Fault> {
    if reach.verdict != Some(Verdict::NoSuchPeer) {
        return render(reach);
    }
    let version = reach.policy_version.unwrap_or(0);
    Ok(format!(
        "policy: the coordinator gives no verdict on {}\n  Either it is older than this program, or version {version} of the policy has just changed who leads there: try again.\n",
        reach.connection.peer
    ))
}

fn place(rule: &PolicyPlace) -> String {
    format!("line {} ({} {})", rule.line, rule.section, rule.number)
}

#[cfg(test)]
mod tests {
    use taut_agent::api::SCHEMA;

    use super::*;

    fn reach(verdict: Verdict, rules: &[(u64, u32)]) -> Reach {
        let place =
            |(number, line): &(u64, u32)| PolicyPlace { section: String::from("acls"), number: *number, line: *line };
        let connection = Connection { peer: String::from("db"), protocol: 6, port: 22 };
        let (verdict, rules) = (Some(verdict), rules.iter().map(place).collect());
        Reach { schema: SCHEMA, connection, verdict, policy_version: Some(3), rules }
    }

    #[test]
    fn the_deciding_rule_is_named_with_its_version() {
        let allowed = render(&reach(Verdict::Allowed, &[(2, 7)])).unwrap();
        assert!(
            allowed.starts_with("policy: tcp port 22 of db is allowed\n  by version 3, line 7 (acls 2)\n"),
            "{allowed}"
        );
        let denied = render(&reach(Verdict::Denied, &[(1, 5), (2, 7)])).unwrap();
        assert!(denied.contains("no rule of version 3 allows it"), "{denied}");
        assert!(denied.contains("by line 5 (acls 1), line 7 (acls 2)"), "{denied}");
        let nothing = render(&reach(Verdict::Denied, &[])).unwrap();
        assert!(nothing.contains("no rule of version 3 allows anything from this host to db"), "{nothing}");
        assert!(render(&reach(Verdict::NoSuchPeer, &[])).is_err() && render(&reach(Verdict::Unknown, &[])).is_err());
    }

    #[test]
    fn an_address_behind_a_router_has_the_same_verdicts_and_no_verdict_is_no_error() {
        let verdict = |verdict, rules: &[_]| render_behind(&reach(verdict, rules)).unwrap();
        assert!(verdict(Verdict::Allowed, &[(2, 7)]).starts_with("policy: tcp port 22 of db is allowed\n"));
        assert!(verdict(Verdict::Denied, &[]).contains("is denied to this host"));
        assert!(verdict(Verdict::NoSuchPeer, &[]).contains("gives no verdict on db"));
        assert!(render_behind(&reach(Verdict::Unknown, &[])).is_err());
    }

    #[test]
    fn a_port_means_tcp_and_protocols_without_ports_have_none() {
        assert_eq!(service(None, None).unwrap(), None);
        assert_eq!(service(None, Some(22)).unwrap(), Some((6, 22)));
        assert_eq!(service(Some(17), Some(53)).unwrap(), Some((17, 53)));
        assert_eq!(service(Some(1), None).unwrap(), Some((1, 0)));
        assert!(service(Some(6), None).is_err() && service(Some(47), Some(1)).is_err());
        assert_eq!(protocol("UDP").unwrap(), 17);
        assert_eq!(protocol("47").unwrap(), 47);
        assert!(protocol("0").is_err() && protocol("256").is_err() && protocol("http").is_err());
        assert_eq!(port("65535").unwrap(), 65_535);
        assert!(port("0").is_err() && port("65536").is_err() && port("http").is_err());
    }

    #[test]
    fn an_object_for_programs() {
        let explained = Explained { reach: &reach(Verdict::Denied, &[(2, 7)]), path: None };
        let json = serde_json::to_value(explained).unwrap();
        assert_eq!(
            (&json["schema"], &json["verdict"], &json["policy_version"]),
            (&1.into(), &"denied".into(), &3.into())
        );
        assert_eq!((&json["peer"], &json["port"], &json["rules"][0]["line"]), (&"db".into(), &22.into(), &7.into()));
    }
}
