//! `routes`: lists the subnet routes of nodes and the exit nodes, approves them, and takes approvals back.

use taut_base::Prefix;
use taut_netmap::{exit_routes, is_exit_route};

use super::arguments::Arguments;
use super::devices::separated;
use super::remote::{Remote, escape, in_network};
use super::table::table;
use super::{CommandError, no_verb};
use crate::contract::{ChangeNode, NodeAnswer, NodeEntry, NodeList};
use crate::state::EXIT_NODE;

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, approve or revoke")?;
    let network = arguments.value("network")?;
    let network = in_network(network.as_deref());
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("nodes{network}"))?, list)
        }
        "approve" => change(arguments, &network, "approved", |routes| ChangeNode {
            approve_routes: routes,
            ..ChangeNode::default()
        }),
        "revoke" => change(arguments, &network, "revoked", |routes| ChangeNode {
            revoke_routes: routes,
            ..ChangeNode::default()
        }),
        other => Err(no_verb("routes", other, &["list", "approve", "revoke"])),
    }
}

fn change(
    mut arguments: Arguments,
    network: &str,
    done: &str,
    body: impl FnOnce(Vec<Prefix>) -> ChangeNode,
) -> Result<(), CommandError> {
    let name = arguments.need("the node")?;
    let text = arguments.need("the routes, such as 192.168.10.0/24,10.1.0.0/16, or exit-node")?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let routes = separated(&text).iter().map(|route| prefixes(route)).collect::<Result<Vec<_>, _>>()?.concat();
    let answer = remote.patch(&format!("nodes/{}{network}", escape(&name)), &body(routes.clone()))?;
    let mut named: Vec<String> = routes.iter().map(|route| word(*route)).collect();
    named.dedup();
    remote.show(&answer, |answer: NodeAnswer| format!("{}: {done} {}\n", answer.node.name, named.join(", ")))
}

/// Returns the prefixes that a word stands for. Either default route stands for both.
fn prefixes(text: &str) -> Result<Vec<Prefix>, CommandError> {
    if text == EXIT_NODE {
        return Ok(exit_routes().to_vec());
    }
    let prefix: Prefix =
        text.parse().map_err(|error| CommandError::Usage(format!("`{text}` is {error}, or {EXIT_NODE}")))?;
    Ok(if is_exit_route(prefix) { exit_routes().to_vec() } else { vec![prefix] })
}

/// Returns a route as it is shown.
fn word(route: Prefix) -> String {
    if is_exit_route(route) { String::from("exit node") } else { route.to_string() }
}

fn list(answer: NodeList) -> String {
    let heads = ["NODE", "NETWORK", "ROUTE", "STATE", "ONLINE"].map(String::from).to_vec();
    let rows: Vec<Vec<String>> = answer.nodes.into_iter().flat_map(|node| rows(&node)).collect();
    if rows.is_empty() {
        return String::from(
            "no routes; `taut set --advertise-routes PREFIX` on a node makes it a router, `taut set --advertise-exit-node` an exit node\n",
        );
    }
    table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
}

/// Returns a row for each route of a node.
fn rows(node: &NodeEntry) -> Vec<Vec<String>> {
    let (advertised, approved) = (&node.advertised_routes, &node.approved_routes);
    let row = |route: &Prefix| {
        let state = match (advertised.contains(route), approved.contains(route)) {
            (true, true) => "approved",
            (true, false) => "waits for approval",
            (false, _) => "approved, not advertised",
        };
        let online = if node.online { "yes" } else { "no" };
        vec![node.name.clone(), node.network.clone(), word(*route), String::from(state), String::from(online)]
    };
    let all = advertised.iter().chain(approved.iter().filter(|route| !advertised.contains(route)));
    // A node has both default routes or none: they are one row.
    let [_, second] = exit_routes();
    all.filter(|route| **route != second).map(row).collect()
}
