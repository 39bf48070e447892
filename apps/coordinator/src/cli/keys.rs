//! `keys`.

use super::arguments::Arguments;
use super::devices::separated;
use super::remote::{Remote, in_network};
use super::table::{distance, duration, table};
use super::{CommandError, no_verb};
use crate::contract::{CreateKey, CreatedKey, KeyEntry, KeyList, RevokedKey};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
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
            let id: u64 = id
                .parse()
                .map_err(|_| CommandError::Usage(format!("`{id}` is not a number; `keys list` shows the numbers")))?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("keys/{id}"))?;
            remote.show(&answer, |_: RevokedKey| {
                format!("key {id} is revoked; nodes that joined with it remain members\n")
            })
        }
        other => Err(no_verb("keys", other, &["list", "create", "revoke"])),
    }
}

fn create(mut arguments: Arguments) -> Result<(), CommandError> {
    let expires = arguments.value("expires")?;
    let (uses, ephemeral) = (arguments.value("uses")?, arguments.value("ephemeral")?);
    let body = CreateKey {
        network: arguments.value("network")?,
        one_off: arguments.switch("one-off"),
        most_uses: uses.map(|text| number(&text)).transpose()?,
        ephemeral_after: ephemeral.map(|text| duration(&text)).transpose()?.flatten(),
        tags: arguments.value("tags")?.map(|tags| separated(&tags)).unwrap_or_default(),
        owner: arguments.value("owner")?,
        pre_approved: arguments.switch("pre-approved"),
        expires_in: expires.map(|text| duration(&text)).transpose()?,
    };
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    // The token alone on its line, as `serve` prints it: easy to copy and to cut out.
    let answer = remote.post("keys", &body)?;
    remote.show(&answer, |answer: CreatedKey| format!("join-token: {}\n", answer.join_token)).map_err(|failed| {
        let id = &answer["key"]["id"];
        failed.with_consequence(&format!(
            "key {id} exists all the same, and its join token is shown once only: revoke it by `taut-coordinator keys revoke {id}`"
        ))
    })
}

fn number(text: &str) -> Result<i64, CommandError> {
    text.parse().map_err(|_| CommandError::Usage(format!("`{text}` is not a number of uses")))
}

fn list(answer: KeyList) -> String {
    let keys = answer.keys;
    if keys.is_empty() {
        return String::from("no keys; `taut-coordinator keys create` makes one\n");
    }
    let heads = ["ID", "NETWORK", "KIND", "STATE", "USED", "TAGS", "EXPIRES", "CREATED"].map(String::from).to_vec();
    let row = |key: KeyEntry| {
        let kind = kind(&key);
        vec![
            key.id.to_string(),
            key.network,
            kind,
            String::from(key.state.name()),
            match key.most_uses {
                Some(most) => format!("{}/{most}", key.used),
                None => key.used.to_string(),
            },
            if key.tags.is_empty() { String::from("-") } else { key.tags.join(",") },
            key.expires_at.map_or_else(|| String::from("never"), distance),
            distance(key.created_at),
        ]
    };
    table(&std::iter::once(heads).chain(keys.into_iter().map(row)).collect::<Vec<_>>())
}

/// Returns the kind of a key: `one-off` or `reusable`, followed by `ephemeral` and `pre-approved` if they apply.
fn kind(key: &KeyEntry) -> String {
    let uses = if key.one_off { "one-off" } else { "reusable" };
    let special = [(key.ephemeral_after.is_some(), "ephemeral"), (key.pre_approved, "pre-approved")];
    let special = special.into_iter().filter_map(|(holds, word)| holds.then_some(word));
    std::iter::once(uses).chain(special).collect::<Vec<_>>().join(",")
}
