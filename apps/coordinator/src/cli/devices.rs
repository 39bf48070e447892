//! `devices`: lists and changes the devices of a network, and approves or denies the machines that ask to join.

use serde::Deserialize;
use taut_base::PublicKey;
use taut_netmap::fingerprint;

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network};
use super::table::{distance, duration, table};
use super::{CommandError, no_verb};
use crate::contract::{
    ApproveRequest, ChangeNode, DeniedRequest, NodeAnswer, NodeEntry, NodeList, NodeState, RemovedNode, RequestAnswer,
    RequestEntry, RequestList,
};
use crate::state::is_code;

/// All verbs.
const VERBS: [&str; 13] = [
    "list",
    "invite",
    "requests",
    "approve",
    "deny",
    "disable",
    "enable",
    "expire",
    "key-expiry",
    "tag",
    "owner",
    "rename",
    "remove",
];

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need(
        "list, invite, requests, approve, deny, disable, enable, expire, key-expiry, tag, owner, rename or remove",
    )?;
    // These verbs take no `--network`: a machine that asks to join is in no network yet, and its code is valid for the whole coordinator.
    let has_network = !matches!(verb.as_str(), "invite" | "requests" | "deny");
    let network = if has_network { arguments.value("network")? } else { None };
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("nodes{}", in_network(network.as_deref())))?, list)
        }
        "requests" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get("requests")?, requests)
        }
        "invite" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get_open("key")?, invite)
        }
        "approve" => approve(arguments, network.as_deref()),
        "deny" => {
            let code = arguments.need("the code")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("requests/{}", escape(&code)))?;
            remote.show(&answer, |answer: DeniedRequest| format!("the request {} is denied\n", answer.denied))
        }
        "disable" | "enable" => {
            let is_disabled = verb == "disable";
            let body = ChangeNode { disabled: Some(is_disabled), ..ChangeNode::default() };
            change(arguments, network.as_deref(), &body, move |name| match is_disabled {
                true => format!(
                    "{name} is disabled: no node has it in its map any more; `devices enable {name}` lets it in again\n"
                ),
                false => format!("{name} is enabled\n"),
            })
        }
        "expire" => {
            let body = ChangeNode { expired: Some(true), ..ChangeNode::default() };
            change(arguments, network.as_deref(), &body, |name| {
                format!("the membership of {name} has ended; `taut up` on it, and an approval, renew it\n")
            })
        }
        "key-expiry" => {
            with_value(arguments, network.as_deref(), "the time, such as 90d, or never, or default", |time| {
                let key_expiry = match time {
                    "default" => None,
                    "never" => Some(0),
                    time => duration(time)?,
                };
                Ok(ChangeNode { key_expiry: Some(key_expiry), ..ChangeNode::default() })
            })
        }
        "tag" => {
            with_value(arguments, network.as_deref(), "the tags with commas, such as tag:web,tag:db, or none", |tags| {
                let tags = if tags == "none" { Vec::new() } else { separated(tags) };
                Ok(ChangeNode { tags: Some(tags), ..ChangeNode::default() })
            })
        }
        "owner" => with_value(arguments, network.as_deref(), "the owner, or none", |owner| {
            let owner = Some(owner).filter(|owner| *owner != "none").map(String::from);
            Ok(ChangeNode { owner: Some(owner), ..ChangeNode::default() })
        }),
        "rename" => with_value(arguments, network.as_deref(), "the new name", |name| {
            Ok(ChangeNode { name: Some(String::from(name)), ..ChangeNode::default() })
        }),
        "remove" => {
            let name = arguments.need("the device")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("nodes/{}{}", escape(&name), in_network(network.as_deref())))?;
            remote.show(&answer, |answer: RemovedNode| format!("{} is removed\n", answer.removed.name))
        }
        other => Err(no_verb("devices", other, &VERBS)),
    }
}

/// The coordinator's key and URLs.
#[derive(Deserialize)]
struct Invitation {
    key: PublicKey,
    #[serde(default)]
    urls: Vec<String>,
}

/// Returns the command that a host runs to ask for its approval, and, if an http URL stands behind an https URL, the same command for a node without TLS. Neither contains a secret.
fn invite(invitation: Invitation) -> String {
    let Invitation { key, urls } = invitation;
    let url = urls.first().map_or("URL", String::as_str);
    let command = |url: &str| format!("taut up --coordinator {url} --coordinator-key {key}\n");
    let plain = urls.iter().skip(1).find(|other| url.starts_with("https:") && other.starts_with("http:"));
    let without_tls = plain.map(|plain| format!("on a router with taut-tiny:\n{}", command(plain))).unwrap_or_default();
    format!("{}{without_tls}fingerprint of the key: {}\n", command(url), fingerprint(&key))
}

/// Splits a text at its commas into trimmed words.
pub(super) fn separated(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(String::from).collect()
}

/// Approves a machine by its code, or a node that waits, or one whose membership has expired, by its name.
fn approve(mut arguments: Arguments, network: Option<&str>) -> Result<(), CommandError> {
    let what = arguments.need("the code, or the device")?;
    if !is_code(&what) {
        // These options apply only to machines that ask to join, which have a code.
        if let Some(option) = ["tags", "name", "owner"].into_iter().find(|option| !arguments.values(option).is_empty())
        {
            let message = format!("--{option} is for a CODE; change a device with `taut-coordinator devices {option}`");
            return Err(CommandError::Usage(
                message.replace("devices name", "devices rename").replace("devices tags", "devices tag"),
            ));
        }
        let body = ChangeNode { approved: Some(true), ..ChangeNode::default() };
        return changed(arguments, &what, network, &body, |name| format!("{name} is approved\n"));
    }
    let tags = arguments.value("tags")?.map(|tags| separated(&tags)).unwrap_or_default();
    let body = ApproveRequest {
        network: network.map(String::from),
        name: arguments.value("name")?,
        tags,
        owner: arguments.value("owner")?,
    };
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    // The output names the address from which the machine asked, which only its request has. A member may not read the list.
    let request = format!("requests/{}", escape(&what));
    let known = remote.typed::<RequestAnswer>(&remote.get(&request)?)?.request;
    let answer = remote.post(&format!("{request}/approve"), &body)?;
    remote.show(&answer, |answer: NodeAnswer| {
        let NodeEntry { name, network, machine, state, .. } = answer.node;
        let outcome = match state {
            NodeState::Unapproved => "belongs to you, and waits until an administrator approves it",
            _ => "takes part",
        };
        format!("{name} in the network {network} {outcome}: machine {machine}, which asked from {}\n", known.address)
    })
}

/// Changes the device that the next word names.
fn change(
    mut arguments: Arguments,
    network: Option<&str>,
    body: &ChangeNode,
    told: impl FnOnce(&str) -> String,
) -> Result<(), CommandError> {
    let name = arguments.need("the device")?;
    changed(arguments, &name, network, body, told)
}

fn changed(
    mut arguments: Arguments,
    name: &str,
    network: Option<&str>,
    body: &ChangeNode,
    told: impl FnOnce(&str) -> String,
) -> Result<(), CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let answer = remote.patch(&format!("nodes/{}{}", escape(name), in_network(network)), body)?;
    remote.show(&answer, |answer: NodeAnswer| told(&answer.node.name))
}

/// Changes the device that the next word names to the value of the word after it.
fn with_value(
    mut arguments: Arguments,
    network: Option<&str>,
    what: &str,
    body: impl FnOnce(&str) -> Result<ChangeNode, CommandError>,
) -> Result<(), CommandError> {
    let name = arguments.need("the device")?;
    let value = arguments.need(what)?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let answer = remote.patch(&format!("nodes/{}{}", escape(&name), in_network(network)), &body(&value)?)?;
    remote.show(&answer, |answer: NodeAnswer| {
        let NodeEntry { name, owner, tags, .. } = answer.node;
        let is_untied = owner.is_some() && !tags.is_empty();
        let note = if is_untied { "; with a tag it belongs to the tag, and to no person any more" } else { "" };
        format!("{name} is changed{note}\n")
    })
}

fn list(answer: NodeList) -> String {
    if answer.nodes.is_empty() {
        return String::from("no devices; run `taut up --coordinator URL` on a host, or `taut up --join TOKEN`\n");
    }
    let heads = ["ID", "NAME", "NETWORK", "STATE", "OWNER", "TAGS", "EXPIRES", "SEEN", "MACHINE"];
    let row = |node: NodeEntry| {
        let state = match (node.twin, node.state) {
            (true, _) => "two hosts",
            (false, NodeState::Active) if node.ephemeral_after.is_some() => "ephemeral",
            (false, state) => state.name(),
        };
        vec![
            node.id.to_string(),
            node.name,
            node.network,
            String::from(state),
            node.owner.unwrap_or_else(|| String::from("-")),
            if node.tags.is_empty() { String::from("-") } else { node.tags.join(",") },
            node.expires_at.map_or_else(|| String::from("never"), distance),
            if node.online { String::from("now") } else { distance(node.last_seen_at) },
            node.machine,
        ]
    };
    let rows = std::iter::once(heads.map(String::from).to_vec()).chain(answer.nodes.into_iter().map(row));
    table(&rows.collect::<Vec<_>>())
}

fn requests(answer: RequestList) -> String {
    if answer.requests.is_empty() {
        return String::from("no machine waits for its approval\n");
    }
    let heads = ["CODE", "NAME", "ADDRESS", "MACHINE", "MEMBER", "ASKED", "EXPIRES"];
    let row = |request: RequestEntry| {
        let member = request.network.zip(request.node).map(|(network, node)| format!("{node} in {network}"));
        vec![
            request.code,
            request.name,
            request.address,
            request.machine,
            member.unwrap_or_else(|| String::from("new")),
            distance(request.created_at),
            distance(request.expires_at),
        ]
    };
    let rows = std::iter::once(heads.map(String::from).to_vec()).chain(answer.requests.into_iter().map(row));
    table(&rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_has_a_line_for_nodes_without_tls_where_an_http_url_stands_behind_an_https_url() {
        let lines = |urls: &[&str]| {
            let urls = urls.iter().map(|url| String::from(*url)).collect();
            invite(Invitation { key: PublicKey([7; 32]), urls }).lines().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!((lines(&["https://a"]).len(), lines(&["http://a", "http://b"]).len()), (2, 2));
        let both = lines(&["https://a", "http://a"]);
        assert!(both[0].starts_with("taut up --coordinator https://a --coordinator-key "), "{both:?}");
        assert!(both[1].contains("taut-tiny") && both[2].starts_with("taut up --coordinator http://a "), "{both:?}");
        assert!(both[3].starts_with("fingerprint") && both.len() == 4, "{both:?}");
    }
}
