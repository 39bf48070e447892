//! `/api/v1/account`: requests of a user about its own account.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use taut_relay_server::Source;

use super::super::credentials::SessionView;
use super::super::{Failure, answer, created};
use super::session::{parse_secret, without_cookie};
use crate::api::Context;
use crate::contract::{
    ChangePassword, CodeBody, ConfirmPassword, EndedSessions, ExportAnswer, NewCodesAnswer, RecoveryCodes,
    SchemaVersion, SessionEntry, SessionList,
};
use crate::state::{Actor, Caller, NewCodes, Password, PeopleError, StateError};

/// `GET …/export`: returns everything that is stored about the caller.
pub(super) async fn export(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let person = Caller::current().actor.person().ok_or(StateError::People(PeopleError::NeedsSession))?;
    let export = context.state.export_user(&person.to_string()).await?;
    Ok(answer(ExportAnswer { schema: SchemaVersion, export }))
}

/// `POST …/password`: changes the password; other sessions end.
pub(super) async fn change_password(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ChangePassword { password, new_password } = parse_secret(&body)?;
    let (old, new) = (Password::new(password), Password::new(new_password));
    let ended = context.state.change_password(old, new, source.address).await?;
    Ok(created(EndedSessions { schema: SchemaVersion, ended }))
}

/// `POST …/codes`: begins to turn one-time codes on.
pub(super) async fn begin_codes(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ConfirmPassword { password } = parse_secret(&body)?;
    let NewCodes { secret, uri } = context.state.begin_codes(Password::new(password), source.address).await?;
    Ok(created(NewCodesAnswer { schema: SchemaVersion, secret, uri }))
}

/// `POST …/codes/confirm`: turns them on with a first code.
pub(super) async fn confirm_codes(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    body: Bytes,
) -> Result<Response, Failure> {
    let CodeBody { code } = parse_secret(&body)?;
    let recovery_codes = context.state.confirm_codes(&code, source.address).await?;
    Ok(created(RecoveryCodes { schema: SchemaVersion, recovery_codes }))
}

/// `POST …/codes/end`: turns them off.
pub(super) async fn end_codes(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ConfirmPassword { password } = parse_secret(&body)?;
    context.state.end_codes(Password::new(password), source.address).await?;
    Ok(created(EndedSessions { schema: SchemaVersion, ended: 0 }))
}

/// `GET …/sessions`: lists the sessions of the caller.
pub(super) async fn sessions(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let current = match Caller::current().actor {
        Actor::Person { session, .. } => Some(session),
        _ => None,
    };
    let rows = context.state.own_sessions().await?;
    let entry = |row: crate::store::SessionRow| SessionEntry {
        id: row.id,
        source: row.source,
        current: current == Some(row.id),
        created_at: row.created_at,
        used_at: row.used_at,
        expires_at: row.expires_at,
    };
    Ok(answer(SessionList { schema: SchemaVersion, sessions: rows.into_iter().map(entry).collect() }))
}

/// `DELETE …/sessions`: ends all sessions of the caller.
pub(super) async fn end_sessions(
    Shared(context): Shared<Context>,
    session: Option<Extension<SessionView>>,
) -> Result<Response, Failure> {
    let ended = context.state.sign_out_everywhere().await?;
    Ok(without_cookie(answer(EndedSessions { schema: SchemaVersion, ended }), session))
}

/// `DELETE …/sessions/{id}`: ends one session of the caller.
pub(super) async fn end_session(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let id = id
        .parse()
        .map_err(|_| Failure::bad_request("a session is named by its number", "the list of sessions shows them"))?;
    context.state.end_own_session(id).await?;
    Ok(answer(EndedSessions { schema: SchemaVersion, ended: 1 }))
}
