//! `keys`.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::remote::{Remote, in_network, word};
use super::table::{distance, duration, table};
use super::{Failed, no_verb};

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
    let verb = arguments.need("list, create or revoke")?;
    match verb.as_str() {
        "list" => {
            let network = arguments.value("network")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get(&format!("keys{}", in_network(network.as_deref())))?, list)
        }
        "create" => create(arguments),
        "revoke" => {
            let id = arguments.need("the key's number")?;
            let id: u64 =
                id.parse().map_err(|_| Failed::Usage(format!("`{id}` is no number; `keys list` shows them")))?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("keys/{id}"))?;
            remote.show(&answer, |_| format!("key {id} opens nothing any more; nodes that used it stay members\n"))
        }
        other => Err(no_verb("keys", other, &["list", "create", "revoke"])),
    }
}

fn create(mut arguments: Arguments) -> Result<(), Failed> {
    let mut body = json!({ "one_off": arguments.switch("one-off") });
    if let Some(network) = arguments.value("network")? {
        body["network"] = json!(network);
    }
    if let Some(expires) = arguments.value("expires")? {
        body["expires_in"] = json!(duration(&expires)?);
    }
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    // The token alone on its line, as `serve` prints it: easy to copy and to cut out.
    let answer = remote.post("keys", &body)?;
    remote.show(&answer, |answer| format!("join-token: {}\n", word(&answer["join_token"]))).map_err(|failed| {
        let id = word(&answer["key"]["id"]);
        failed.losing(&format!(
            "key {id} exists all the same, and its join token is shown once only: revoke it by `taut-coordinator keys revoke {id}`"
        ))
    })
}

fn list(answer: &Value) -> String {
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        return String::from("no keys; `taut-coordinator keys create` makes one\n");
    }
    let heads = ["ID", "NETWORK", "KIND", "STATE", "USED", "EXPIRES", "CREATED"].map(String::from).to_vec();
    let row = |key: &Value| {
        vec![
            word(&key["id"]),
            word(&key["network"]),
            String::from(if key["one_off"] == true { "one-off" } else { "reusable" }),
            word(&key["state"]),
            word(&key["used"]),
            key["expires_at"].as_i64().map_or_else(|| String::from("never"), distance),
            distance(key["created_at"].as_i64().unwrap_or(0)),
        ]
    };
    table(&std::iter::once(heads).chain(keys.iter().map(row)).collect::<Vec<_>>())
}
