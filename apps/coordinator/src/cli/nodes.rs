//! `nodes`.

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network, joined};
use super::table::{distance, table};
use super::{CommandError, no_verb};
use crate::contract::{ChangeNode, NodeAnswer, NodeEntry, NodeList, NodeState, RemovedNode};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, rename or remove")?;
    let network = arguments.value("network")?;
    let network = in_network(network.as_deref());
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("nodes{network}"))?, list)
        }
        "rename" => {
            let (name, new) = (arguments.need("the node")?, arguments.need("the new name")?);
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let body = ChangeNode { name: Some(new.clone()), ..ChangeNode::default() };
            let answer = remote.patch(&format!("nodes/{}{network}", escape(&name)), &body)?;
            remote.show(&answer, |_: NodeAnswer| format!("{name} is now called {new}\n"))
        }
        "remove" => {
            let name = arguments.need("the node")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("nodes/{}{network}", escape(&name)))?;
            remote.show(&answer, |answer: RemovedNode| format!("{} is removed\n", answer.removed.name))
        }
        other => Err(no_verb("nodes", other, &["list", "rename", "remove"])),
    }
}

fn list(answer: NodeList) -> String {
    let nodes = answer.nodes;
    if nodes.is_empty() {
        return String::from("no nodes; run `taut up --join TOKEN` on a host\n");
    }
    let heads = ["ID", "NAME", "NETWORK", "IPV4", "IPV6", "ONLINE", "SEEN", "ENDPOINTS"].map(String::from).to_vec();
    let row = |node: NodeEntry| {
        let seen = if node.online { String::from("now") } else { distance(node.last_seen_at) };
        let address = |index| node.addresses.get(index).map_or_else(|| String::from("-"), ToString::to_string);
        let online = match (node.twin, node.state, node.online) {
            (true, ..) => "two hosts",
            (false, NodeState::Active, true) => "yes",
            (false, NodeState::Active, false) => "no",
            (false, state, _) => state.name(),
        };
        vec![
            node.id.to_string(),
            node.name,
            node.network,
            address(0),
            address(1),
            String::from(online),
            seen,
            joined(&node.endpoints),
        ]
    };
    table(&std::iter::once(heads).chain(nodes.into_iter().map(row)).collect::<Vec<_>>())
}
