//! `nodes`.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network, word};
use super::table::{distance, table};
use super::{Failed, no_verb};

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
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
            let answer = remote.patch(&format!("nodes/{}{network}", escape(&name)), &json!({ "name": new }))?;
            remote.show(&answer, |_| format!("{name} is now called {new}\n"))
        }
        "remove" => {
            let name = arguments.need("the node")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("nodes/{}{network}", escape(&name)))?;
            remote.show(&answer, |answer| format!("{} is no member any more\n", word(&answer["removed"]["name"])))
        }
        other => Err(no_verb("nodes", other, &["list", "rename", "remove"])),
    }
}

fn list(answer: &Value) -> String {
    let nodes = answer["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if nodes.is_empty() {
        return String::from("no nodes; run `taut up --join TOKEN` on a host\n");
    }
    let heads = ["ID", "NAME", "NETWORK", "IPV4", "IPV6", "ONLINE", "SEEN", "ENDPOINTS"].map(String::from).to_vec();
    let row = |node: &Value| {
        let online = node["online"] == true;
        let seen = if online { String::from("now") } else { distance(node["last_seen_at"].as_i64().unwrap_or(0)) };
        let endpoints: Vec<String> = node["endpoints"].as_array().into_iter().flatten().map(word).collect();
        vec![
            word(&node["id"]),
            word(&node["name"]),
            word(&node["network"]),
            word(&node["addresses"][0]),
            word(&node["addresses"][1]),
            String::from(if node["twin"] == true {
                "two hosts"
            } else if online {
                "yes"
            } else {
                "no"
            }),
            seen,
            endpoints.join(" "),
        ]
    };
    table(&std::iter::once(heads).chain(nodes.iter().map(row)).collect::<Vec<_>>())
}
