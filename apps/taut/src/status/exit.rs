//! The lines about exit nodes.

use taut_agent::api::{ExitStatus, KillSwitchStatus, SeenAddress};

use crate::table::fixed;

/// Returns the rows: the exit node that this host uses, and whether it is one.
pub(super) fn rows(exit: &ExitStatus) -> Vec<Vec<String>> {
    let row = |text| vec![String::from("exit node"), text];
    used(exit).into_iter().chain(offered(exit)).map(row).collect()
}

/// Returns the row about the kill switch.
pub(super) fn kill_switch(switch: &KillSwitchStatus) -> Vec<String> {
    let text = match (switch.in_force, switch.paused_s.map(|left| fixed(left, 0))) {
        (false, _) if switch.waits => {
            String::from("waits for an exit node; `taut set --exit-node NODE` puts it in force")
        }
        (false, _) => String::from("not in force"),
        (true, Some(left)) => format!("open for {left} s more; `taut kill-switch resume` closes it"),
        (true, None) => format!("in force, {} packets dropped", switch.dropped),
    };
    vec![String::from("kill switch"), text]
}

fn used(exit: &ExitStatus) -> Option<String> {
    let how = if exit.chosen == "auto" { ", chosen automatically" } else { "" };
    if let Some(left) = exit.paused_s {
        let (chosen, left) = (&exit.chosen, fixed(left, 0));
        return Some(format!(
            "{chosen}, paused for {left} s more: packets and names take this host's own way, in the clear; `taut kill-switch resume` ends that"
        ));
    }
    match (&exit.via, exit.chosen.as_str()) {
        (Some(via), _) if exit.problem.is_some() => Some(format!("{via}{how}, does not answer")),
        (Some(via), _) => Some(format!("{via}{how}{}", seen(exit))),
        (None, "none" | "") if exit.candidates.is_empty() => None,
        (None, "none" | "") => {
            let names = exit.candidates.join(", ");
            Some(format!("none; `taut set --exit-node NODE` uses one of {names}"))
        }
        (None, chosen) => Some(format!("{chosen}, which cannot be used: nothing is sent to the internet")),
    }
}

/// Says as what the internet sees this host.
fn seen(exit: &ExitStatus) -> String {
    let of = |measured: bool| -> Vec<String> {
        let seen = exit.seen_as.iter().filter(|seen| seen.measured == measured);
        seen.map(|seen| seen.address.to_string()).collect()
    };
    let (measured, listed) = (of(true), of(false));
    let mut text = String::new();
    if !measured.is_empty() {
        text += &format!("; the internet sees {}", measured.join(" "));
    }
    let is_measured = |family: fn(&SeenAddress) -> bool| exit.seen_as.iter().any(|seen| seen.measured && family(seen));
    if is_measured(|seen| seen.address.is_ipv4()) && !is_measured(|seen| seen.address.is_ipv6()) {
        // The exit node may have an address of IPv6 and forward none.
        text += "; IPv4 alone: no relay answered through it over IPv6";
    } else if !listed.is_empty() {
        text += &format!("; probably seen as {} (its endpoint; no relay answered through it)", listed.join(" "));
    }
    text
}

fn offered(exit: &ExitStatus) -> Option<String> {
    let nodes = if exit.users == 1 { "1 node" } else { &format!("{} nodes", exit.users) };
    exit.advertised.then(|| match (exit.approved, exit.is_exit) {
        (false, _) => {
            String::from("this host offers to be one: waits for the operator (`taut-coordinator routes approve`)")
        }
        (true, true) => format!("this host is one, for {nodes}"),
        (true, false) => String::from("this host is approved as one, and forwards nothing now"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kill_switch_has_a_line_in_each_state() {
        let state = |in_force, waits, paused_s| {
            kill_switch(&KillSwitchStatus { in_force, waits, dropped: 3, paused_s }).remove(1)
        };
        assert_eq!(state(true, false, None), "in force, 3 packets dropped");
        assert!(state(true, false, Some(60.0)).contains("60 s more"));
        assert!(state(false, true, None).contains("waits for an exit node"));
        assert_eq!(state(false, false, None), "not in force");
    }

    #[test]
    fn each_state_has_a_line() {
        let none = ExitStatus { chosen: String::from("none"), ..ExitStatus::default() };
        assert!(rows(&none).is_empty());
        let known = ExitStatus { candidates: vec![String::from("gate")], ..none.clone() };
        assert_eq!(rows(&known)[0][1], "none; `taut set --exit-node NODE` uses one of gate");
        let auto = ExitStatus { chosen: String::from("auto"), via: Some(String::from("gate")), ..known.clone() };
        assert_eq!(rows(&auto)[0][1], "gate, chosen automatically");
        let seen_as = |measured| vec![SeenAddress { address: "192.0.2.1".parse().unwrap(), measured }];
        let seen = |measured| rows(&ExitStatus { seen_as: seen_as(measured), ..auto.clone() })[0][1].clone();
        assert_eq!(
            seen(true),
            "gate, chosen automatically; the internet sees 192.0.2.1; IPv4 alone: no relay answered through it over IPv6"
        );
        assert!(seen(false).contains("probably seen as 192.0.2.1"));
        let paused = ExitStatus { paused_s: Some(59.0), seen_as: seen_as(true), ..auto.clone() };
        let line = rows(&paused)[0][1].clone();
        assert!(line.contains("59 s more") && line.contains("in the clear") && !line.contains("192.0.2.1"), "{line}");
        let named = ExitStatus { chosen: String::from("gate"), ..none.clone() };
        assert!(rows(&named)[0][1].contains("cannot be used"));
        let waits = ExitStatus { advertised: true, ..none.clone() };
        assert!(rows(&waits)[0][1].contains("waits for the operator"));
        let is_exit = ExitStatus { approved: true, is_exit: true, users: 1, ..waits };
        assert_eq!(rows(&is_exit)[0][1], "this host is one, for 1 node");
    }
}
