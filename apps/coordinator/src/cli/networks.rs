//! `networks`.

use serde_json::{Value, json};
use taut_base::Prefix;

use super::arguments::Arguments;
use super::remote::{Remote, escape, word};
use super::table::{distance, table};
use super::{Failed, complain, no_verb};

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
            let answer = remote.post("networks", &body)?;
            warn_of_overlaps(&remote, &answer["network"]);
            remote.show(&answer, |answer| one(&answer["network"]))
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

/// Warns of networks of this coordinator whose IPv4 prefixes overlap that of a new one. That is allowed: most hosts are in one network only.
fn warn_of_overlaps(remote: &Remote, new: &Value) {
    let answer = match remote.get("networks") {
        Ok(answer) => answer,
        Err(failed) => return complain(&format!("the other networks' prefixes could not be compared: {failed}")),
    };
    let prefix = |network: &Value| network["ipv4"].as_str()?.parse::<Prefix>().ok();
    let Some(own) = prefix(new) else { return };
    let others = answer["networks"].as_array().into_iter().flatten().filter(|other| other["id"] != new["id"]);
    let overlapping: Vec<String> = others
        .filter(|other| prefix(other).is_some_and(|other| other.overlaps(own)))
        .map(|other| format!("{} ({})", word(&other["name"]), word(&other["ipv4"])))
        .collect();
    if !overlapping.is_empty() {
        complain(&format!(
            "warning: {own} overlaps the prefix of {}: a host cannot be in both where addresses collide; \
             --ipv4-prefix chooses another prefix",
            overlapping.join(", ")
        ));
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
