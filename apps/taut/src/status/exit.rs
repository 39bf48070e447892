//! The lines about exit nodes.

use taut_agent::api::ExitStatus;

/// Returns the rows: the exit node that this host uses, and whether it is one.
pub(super) fn rows(exit: &ExitStatus) -> Vec<Vec<String>> {
    let row = |text| vec![String::from("exit node"), text];
    used(exit).into_iter().chain(offered(exit)).map(row).collect()
}

fn used(exit: &ExitStatus) -> Option<String> {
    let how = if exit.chosen == "auto" { ", chosen automatically" } else { "" };
    match (&exit.via, exit.chosen.as_str()) {
        (Some(via), _) => Some(format!("{via}{how}{}", if exit.problem.is_some() { ", does not answer" } else { "" })),
        (None, "none" | "") if exit.candidates.is_empty() => None,
        (None, "none" | "") => {
            let names = exit.candidates.join(", ");
            Some(format!("none; `taut set --exit-node NODE` uses one of {names}"))
        }
        (None, chosen) => Some(format!("{chosen}, which cannot be used: nothing is sent to the internet")),
    }
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
    fn each_state_has_a_line() {
        let none = ExitStatus { chosen: String::from("none"), ..ExitStatus::default() };
        assert!(rows(&none).is_empty());
        let known = ExitStatus { candidates: vec![String::from("gate")], ..none.clone() };
        assert_eq!(rows(&known)[0][1], "none; `taut set --exit-node NODE` uses one of gate");
        let auto = ExitStatus { chosen: String::from("auto"), via: Some(String::from("gate")), ..known.clone() };
        assert_eq!(rows(&auto)[0][1], "gate, chosen automatically");
        let named = ExitStatus { chosen: String::from("gate"), ..none.clone() };
        assert!(rows(&named)[0][1].contains("cannot be used"));
        let waits = ExitStatus { advertised: true, ..none.clone() };
        assert!(rows(&waits)[0][1].contains("waits for the operator"));
        let is_exit = ExitStatus { approved: true, is_exit: true, users: 1, ..waits };
        assert_eq!(rows(&is_exit)[0][1], "this host is one, for 1 node");
    }
}
