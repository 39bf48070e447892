//! `operator-token`: `create` on the state directory, the rest over the API.

use serde_json::Value;

use super::arguments::Arguments;
use super::remote::{Remote, word};
use super::serve::{runtime, state_directory};
use super::table::{distance, table};
use super::{Failed, no_verb, show};
use crate::state::new_operator_token;

pub(super) fn run(mut arguments: Arguments) -> Result<(), Failed> {
    let verb = arguments.need("create, list or revoke")?;
    match verb.as_str() {
        "create" => create(arguments),
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get("operator-tokens")?, list)
        }
        "revoke" => {
            let id = arguments.need("the token's number")?;
            let id: u64 = id
                .parse()
                .map_err(|_| Failed::Usage(format!("`{id}` is no number; `operator-token list` shows them")))?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("operator-tokens/{id}"))?;
            remote.show(&answer, |answer| {
                let own = if answer["current"] == true { "; it was the one that you use" } else { "" };
                format!("operator token {id} opens nothing any more{own}\n")
            })
        }
        other => Err(no_verb("operator-token", other, &["create", "list", "revoke"])),
    }
}

fn create(mut arguments: Arguments) -> Result<(), Failed> {
    let directory = state_directory(&mut arguments)?;
    arguments.finish()?;
    let token = runtime()?.block_on(new_operator_token(&directory)).map_err(Failed::run)?;
    show(&format!("operator-token: {token}\n")).map_err(|failed| {
        failed.losing(
            "the token exists all the same, and is shown once only: `taut-coordinator operator-token list` has its number, `revoke` ends it",
        )
    })
}

fn list(answer: &Value) -> String {
    let heads = ["ID", "STATE", "CREATED", ""].map(String::from).to_vec();
    let row = |token: &Value| {
        let current = if token["current"] == true { "the one that you use" } else { "" };
        let created = distance(token["created_at"].as_i64().unwrap_or(0));
        vec![word(&token["id"]), word(&token["state"]), created, String::from(current)]
    };
    let tokens = answer["operator_tokens"].as_array().map(Vec::as_slice).unwrap_or_default();
    table(&std::iter::once(heads).chain(tokens.iter().map(row)).collect::<Vec<_>>())
}
