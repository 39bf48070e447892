//! `relays` and `ticket-key`.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::remote::{Remote, escape, in_network, word};
use super::table::table;
use super::{Failed, no_verb};

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
    let verb = arguments.need("list, add or remove")?;
    let network = arguments.value("network")?;
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("relays{}", in_network(network.as_deref())))?, list)
        }
        "add" => add(arguments, network.as_deref()),
        "remove" => {
            let name = arguments.need("the relay")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("relays/{}{}", escape(&name), in_network(network.as_deref())))?;
            remote.show(&answer, |answer| format!("nodes are told of {} no more\n", word(&answer["removed"]["name"])))
        }
        other => Err(no_verb("relays", other, &["list", "add", "remove"])),
    }
}

/// `ticket-key`: what `taut-relay serve --trust` wants.
pub(super) fn ticket_key(mut arguments: Arguments) -> Result<(), Failed> {
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    remote.show(&remote.get("ticket-key")?, |answer| format!("{}\n", word(&answer["ticket_key"])))
}

fn add(mut arguments: Arguments, network: Option<&str>) -> Result<(), Failed> {
    let (name, key) = (arguments.need("the relay's name")?, arguments.need("the relay's key")?);
    let endpoints: Vec<String> = std::iter::from_fn(|| arguments.word()).collect();
    let (stun_port, web) = (arguments.value("stun-port")?, arguments.value("web")?);
    let bad_port = |text: &str| Failed::Usage(format!("--stun-port `{text}` is no port; write 3479"));
    let stun_port = stun_port.map(|text| text.parse::<u16>().map_err(|_| bad_port(&text))).transpose()?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let body = json!({
        "network": network,
        "name": name,
        "key": key,
        "endpoints": endpoints,
        "stun_port": stun_port,
        "web": web,
    });
    let answer = remote.post("relays", &body)?;
    remote.show(&answer, |answer| {
        let relay = &answer["relay"];
        format!(
            "nodes of {} are told of relay {} ({})\n",
            word(&relay["network"]),
            word(&relay["id"]),
            word(&relay["name"])
        )
    })
}

fn list(answer: &Value) -> String {
    let relays = answer["relays"].as_array().map(Vec::as_slice).unwrap_or_default();
    if relays.is_empty() {
        return String::from("no relays; `taut-coordinator relays add NAME KEY ENDPOINT` names one\n");
    }
    let heads = ["ID", "NAME", "NETWORK", "BOUND", "STUN-PORT", "ENDPOINTS", "WEB", "KEY"].map(String::from).to_vec();
    let row = |relay: &Value| {
        let endpoints: Vec<String> = relay["endpoints"].as_array().into_iter().flatten().map(word).collect();
        let fields = ["id", "name", "network", "bound", "stun_port"].map(|field| word(&relay[field]));
        fields.into_iter().chain([endpoints.join(" "), word(&relay["web"]), word(&relay["key"])]).collect()
    };
    table(&std::iter::once(heads).chain(relays.iter().map(row)).collect::<Vec<_>>())
}
