//! `networks`.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::remote::{Remote, escape, word};
use super::table::{distance, table};
use super::{Failed, no_verb};

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
    let verb = arguments.need("list, show, create or remove")?;
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get("networks")?, list)
        }
        "show" => {
            let name = arguments.need("the network")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("networks/{}", escape(&name)))?, |answer| one(&answer["network"]))
        }
        "create" => {
            let mut body = json!({ "name": arguments.need("the network's name")? });
            if let Some(prefix) = arguments.value("ipv4-prefix")? {
                body["ipv4_prefix"] = json!(prefix);
            }
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.post("networks", &body)?, |answer| one(&answer["network"]))
        }
        "remove" => {
            let (name, force) = (arguments.need("the network")?, arguments.switch("force"));
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let force = if force { "?force=true" } else { "" };
            let answer = remote.delete(&format!("networks/{}{force}", escape(&name)))?;
            remote.show(&answer, |answer| match answer["removed"]["nodes"].as_u64() {
                Some(0) | None => format!("network {name} is removed\n"),
                Some(nodes) => format!("network {name} is removed; members that were removed with it: {nodes}\n"),
            })
        }
        other => Err(no_verb("networks", other, &["list", "show", "create", "remove"])),
    }
}

fn one(network: &Value) -> String {
    let fields = ["name", "id", "ipv4", "ipv6", "nodes", "online", "version"];
    let rows: Vec<Vec<String>> = fields.iter().map(|field| vec![format!("{field}:"), word(&network[*field])]).collect();
    table(&rows)
}

fn list(answer: &Value) -> String {
    let heads = ["NAME", "IPV4", "IPV6", "NODES", "ONLINE", "CREATED"].map(String::from).to_vec();
    let row = |network: &Value| {
        let created = distance(network["created_at"].as_i64().unwrap_or(0));
        let field = |name: &str| word(&network[name]);
        vec![field("name"), field("ipv4"), field("ipv6"), field("nodes"), field("online"), created]
    };
    let networks = answer["networks"].as_array().map(Vec::as_slice).unwrap_or_default();
    table(&std::iter::once(heads).chain(networks.iter().map(row)).collect::<Vec<_>>())
}
