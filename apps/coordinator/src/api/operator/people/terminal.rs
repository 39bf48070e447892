//! `/api/v1/sign-in/terminal`: a terminal shows the page and the code of the OpenID provider, and asks whether the person has signed in.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::HeaderMap;
use axum::response::Response;
use taut_relay_server::Source;
use zeroize::Zeroizing;

use super::super::{Failure, created, parse};
use super::session::{front, parse_secret};
use super::tokens;
use crate::api::Context;
use crate::contract::{BeginTerminalBody, FinishTerminal, SchemaVersion, TerminalAnswer, TerminalBegun, TerminalState};
use crate::state::{self, LONGEST_TERMINAL_LIFE, NewTerminal};

const _: () = assert!(LONGEST_TERMINAL_LIFE == 604_800, "the contract states this maximum");

/// `POST`: begins to sign in.
pub(super) async fn begin(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    front(&context, &headers)?;
    let BeginTerminalBody { name, scopes, expires_in } = parse(&body)?;
    let wanted = NewTerminal { name, scopes, life: expires_in };
    let begun = context.state.begin_terminal(source.address, wanted).await?;
    Ok(created(TerminalBegun {
        schema: SchemaVersion,
        secret: begun.secret.to_string(),
        code: begun.code,
        page: begun.link,
        page_with_code: begun.link_with_code,
        expires_in: begun.life,
        interval: begun.interval.as_secs(),
    }))
}

/// `POST …/finish`: says whether the person has signed in. The answer then has the token, which no later answer can have.
pub(super) async fn finish(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    front(&context, &headers)?;
    let secret = Zeroizing::new(parse_secret::<FinishTerminal>(&body)?.secret);
    let (state, token, secret) = match context.state.finish_terminal(source.address, &secret).await? {
        state::TerminalAnswer::Pending => (TerminalState::Pending, None, None),
        state::TerminalAnswer::SlowDown => (TerminalState::SlowDown, None, None),
        state::TerminalAnswer::Done(view, secret) => (TerminalState::Done, Some(tokens::entry(&view)), Some(secret)),
    };
    Ok(created(TerminalAnswer { schema: SchemaVersion, state, token, secret }))
}
