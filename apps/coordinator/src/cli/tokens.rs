//! `operator-token`: `create` on the state directory, the rest over the API.

use super::arguments::Arguments;
use super::remote::Remote;
use super::serve::runtime;
use super::settings::{DATABASE, Settings};
use super::table::{distance, table};
use super::{CommandError, no_verb, show};
use crate::contract::{OperatorTokenEntry, OperatorTokenList, RevokedOperatorToken};
use crate::state::new_operator_token;

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
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
            let id: u64 = id.parse().map_err(|_| {
                CommandError::Usage(format!("`{id}` is not a number; `operator-token list` shows the numbers"))
            })?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("operator-tokens/{id}"))?;
            remote.show(&answer, |answer: RevokedOperatorToken| {
                let own = if answer.current { "; it was the token of this command" } else { "" };
                format!("operator token {id} is revoked{own}\n")
            })
        }
        other => Err(no_verb("operator-token", other, &["create", "list", "revoke"])),
    }
}

fn create(mut arguments: Arguments) -> Result<(), CommandError> {
    let database = Settings::read(&mut arguments, &DATABASE)?.database()?;
    arguments.finish()?;
    let token = runtime()?.block_on(new_operator_token(&database)).map_err(CommandError::run)?;
    show(&format!("operator-token: {token}\n")).map_err(|failed| {
        failed.with_consequence(
            "the token exists all the same, and is shown once only: `taut-coordinator operator-token list` has its number, `revoke` ends it",
        )
    })
}

fn list(answer: OperatorTokenList) -> String {
    let heads = ["ID", "STATE", "CREATED", ""].map(String::from).to_vec();
    let row = |token: OperatorTokenEntry| {
        let current = if token.current { "token of this command" } else { "" };
        let (state, created) = (token.state.name(), distance(token.created_at));
        vec![token.id.to_string(), String::from(state), created, String::from(current)]
    };
    table(&std::iter::once(heads).chain(answer.operator_tokens.into_iter().map(row)).collect::<Vec<_>>())
}
