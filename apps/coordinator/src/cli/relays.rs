//! `relays`, `relay-token` and `ticket-key`.

use std::net::SocketAddr;

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network};
use super::table::table;
use super::{CommandError, no_verb};
use crate::contract::{AddRelay, RelayAnswer, RelayEntry, RelayList, RelayTokenAnswer, RemovedRelay, TicketKeyAnswer};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, add or remove")?;
    let network = arguments.value("network")?;
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("relays{}", in_network(network.as_deref())))?, list)
        }
        "add" => add(arguments, network),
        "remove" => {
            let name = arguments.need("the relay")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("relays/{}{}", escape(&name), in_network(network.as_deref())))?;
            remote.show(&answer, |answer: RemovedRelay| format!("relay {} is removed\n", answer.removed.name))
        }
        other => Err(no_verb("relays", other, &["list", "add", "remove"])),
    }
}

/// `ticket-key`: prints the key for `taut-relay serve --trust`.
pub(super) fn ticket_key(mut arguments: Arguments) -> Result<(), CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    remote.show(&remote.get("ticket-key")?, |answer: TicketKeyAnswer| format!("{}\n", answer.ticket_key))
}

/// `relay-token`: prints the line for `taut-relay serve --coordinator`.
pub(super) fn relay_token(mut arguments: Arguments) -> Result<(), CommandError> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    remote.show(&remote.get("relay-token")?, |answer: RelayTokenAnswer| format!("{}\n", answer.relay_token))
}

fn add(mut arguments: Arguments, network: Option<String>) -> Result<(), CommandError> {
    let (name, key) = (arguments.need("the relay's name")?, arguments.need("the relay's key")?);
    let endpoints: Vec<String> = std::iter::from_fn(|| arguments.word()).collect();
    let (stun_port, web) = (arguments.value("stun-port")?, arguments.value("web")?);
    let bad_port = |text: &str| CommandError::Usage(format!("--stun-port `{text}` is not a port; write 3479"));
    let stun_port = stun_port.map(|text| text.parse::<u16>().map_err(|_| bad_port(&text))).transpose()?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let body = AddRelay { network, name, key, endpoints, stun_port, web };
    let answer = remote.post("relays", &body)?;
    remote.show(&answer, |RelayAnswer { relay, .. }| {
        format!("network {}: relay {} ({}) is added\n", relay.network, relay.id, relay.name)
    })
}

fn list(answer: RelayList) -> String {
    let relays = answer.relays;
    if relays.is_empty() {
        return String::from("no relays; `taut-coordinator relays add NAME KEY ENDPOINT` names one\n");
    }
    let heads =
        ["ID", "NAME", "NETWORK", "BOUND", "LOAD", "STUN-PORT", "ENDPOINTS", "WEB", "KEY"].map(String::from).to_vec();
    let row = |relay: RelayEntry| {
        let (places, load) = ((endpoints(&relay), web(&relay)), load(&relay));
        vec![
            relay.id.to_string(),
            relay.name,
            relay.network,
            relay.bound.to_string(),
            load,
            relay.stun_port.to_string(),
            places.0,
            places.1,
            relay.key.to_string(),
        ]
    };
    table(&std::iter::once(heads).chain(relays.into_iter().map(row)).collect::<Vec<_>>())
}

/// Returns the relay's load in percent; `-` for a relay without a channel.
fn load(relay: &RelayEntry) -> String {
    let busy = if relay.busy { ", busy" } else { "" };
    match &relay.channel {
        None => String::from("-"),
        Some(channel) => match &channel.load {
            None => String::from("connected"),
            Some(load) => format!("{} %{busy}", load.thousandths / 10),
        },
    }
}

/// Returns the relay's endpoints; `as the coordinator, port 3478` for those at which a node reaches the coordinator itself.
fn endpoints(relay: &RelayEntry) -> String {
    let (own, named): (Vec<&SocketAddr>, Vec<&SocketAddr>) =
        relay.endpoints.iter().partition(|endpoint| endpoint.ip().is_unspecified());
    let own = own.first().map(|endpoint| format!("as the coordinator, port {}", endpoint.port()));
    own.into_iter().chain(named.iter().map(ToString::to_string)).collect::<Vec<_>>().join(" ")
}

/// Returns the relay's URL; `as the coordinator` for the URL at which a node reaches the coordinator itself.
fn web(relay: &RelayEntry) -> String {
    let is_own = |url: &str| relay.own && url.contains("//0.0.0.0/");
    match relay.web.as_deref() {
        Some(url) if is_own(url) => String::from("as the coordinator"),
        url => String::from(url.unwrap_or("-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coordinators_own_relay_is_listed_without_unspecified_addresses() {
        let relay = |endpoints: &str, web: &str| {
            let json = serde_json::json!({
                "id": 0, "network": "default", "name": "coordinator", "key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "own": true,
                "endpoints": endpoints.split(' ').collect::<Vec<_>>(), "stun_port": 3479, "web": web, "bound": 2, "created_at": null,
            });
            list(RelayList {
                schema: crate::contract::SchemaVersion,
                relays: vec![serde_json::from_value(json).unwrap()],
            })
        };
        let text = relay("[::]:3478 0.0.0.0:3478", "ws://0.0.0.0/relay/v1");
        assert!(text.contains("as the coordinator, port 3478  as the coordinator  AAAA"), "{text}");
        assert!(!text.contains("0.0.0.0") && !text.contains("[::]"), "{text}");
        let text = relay("203.0.113.7:3478", "wss://relay.example/");
        assert!(text.contains("203.0.113.7:3478  wss://relay.example/"), "{text}");
    }
}
