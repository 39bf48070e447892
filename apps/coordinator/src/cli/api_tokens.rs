//! `tokens`: API tokens. `create` works on the database and makes a token of the operator; a user makes its own by the API.

use super::arguments::Arguments;
use super::remote::Remote;
use super::serve::runtime;
use super::settings::{DATABASE, Settings};
use super::table::{distance, duration, table};
use super::{CommandError, no_verb, show};
use crate::contract::{ApiTokenEntry, ApiTokenList, RevokedApiToken};
use crate::state::new_api_token;

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("create, list or revoke")?;
    match verb.as_str() {
        "create" => create(arguments),
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get("tokens?limit=500")?, list)
        }
        "revoke" => {
            let id = arguments.need("the token's number")?;
            let id: u64 = id
                .parse()
                .map_err(|_| CommandError::Usage(format!("`{id}` is not a number; `tokens list` shows the numbers")))?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.delete(&format!("tokens/{id}"))?;
            remote.show(&answer, |answer: RevokedApiToken| format!("API token {} is revoked\n", answer.revoked))
        }
        other => Err(no_verb("tokens", other, &["create", "list", "revoke"])),
    }
}

fn create(mut arguments: Arguments) -> Result<(), CommandError> {
    let name = arguments.need("the token's name")?;
    let (scopes, expires) = (arguments.value("scopes")?, arguments.value("expires")?);
    let settings = Settings::read(&mut arguments, &DATABASE)?;
    arguments.finish()?;
    let scopes = scopes.ok_or_else(|| {
        CommandError::Usage(String::from(
            "give what the token is for: --scopes \"nodes:read keys:write\", `read` or `all`",
        ))
    })?;
    let life = match expires.map(|text| duration(&text)).transpose()? {
        Some(None) => return Err(CommandError::Usage(String::from("an API token expires; write 24h, 90d or 3650d"))),
        other => other.flatten(),
    };
    let database = settings.database()?;
    let token = runtime()?.block_on(new_api_token(&database, &name, &scopes, life)).map_err(CommandError::run)?;
    show(&format!("token: {token}\n")).map_err(|failed| {
        failed.with_consequence(
            "the token exists all the same, and is shown once only: `taut-coordinator tokens list` has its number, `revoke` ends it",
        )
    })
}

fn list(answer: ApiTokenList) -> String {
    if answer.tokens.is_empty() {
        return String::from("no API tokens; `taut-coordinator tokens create` makes one\n");
    }
    let heads = ["ID", "NAME", "USER", "STATE", "EXPIRES", "SCOPES"].map(String::from).to_vec();
    let row = |token: ApiTokenEntry| {
        vec![
            token.id.to_string(),
            token.name,
            token.user.unwrap_or_else(|| String::from("operator")),
            String::from(token.state.name()),
            token.expires_at.map_or_else(|| String::from("never"), distance),
            token.scopes,
        ]
    };
    table(&std::iter::once(heads).chain(answer.tokens.into_iter().map(row)).collect::<Vec<_>>())
}
