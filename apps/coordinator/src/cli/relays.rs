//! `relays` and `ticket-key`.

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network, joined};
use super::table::table;
use super::{CommandError, no_verb};
use crate::contract::{AddRelay, RelayAnswer, RelayEntry, RelayList, RemovedRelay, TicketKeyAnswer};

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
    let heads = ["ID", "NAME", "NETWORK", "BOUND", "STUN-PORT", "ENDPOINTS", "WEB", "KEY"].map(String::from).to_vec();
    let row = |relay: RelayEntry| {
        vec![
            relay.id.to_string(),
            relay.name,
            relay.network,
            relay.bound.to_string(),
            relay.stun_port.to_string(),
            joined(&relay.endpoints),
            relay.web.unwrap_or_else(|| String::from("-")),
            relay.key.to_string(),
        ]
    };
    table(&std::iter::once(heads).chain(relays.into_iter().map(row)).collect::<Vec<_>>())
}
