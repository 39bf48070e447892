//! `networks`.

use serde_json::{Value, json};

use super::Failed;
use super::arguments::Arguments;
use super::remote::{Remote, escape, word};
use super::table::{distance, table};

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
    let verb = arguments.need("list, show or create")?;
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
        other => Err(Failed::Usage(format!("there is no `networks {other}`; there is list, show, create"))),
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
