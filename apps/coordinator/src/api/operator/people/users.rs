//! `/api/v1/users`.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::http::HeaderMap;
use axum::response::Response;

use super::super::{Failure, answer, created, page, parse};
use super::{PAGE, if_match, user_entry, with_etag};
use crate::api::Context;
use crate::contract::{
    CreateUser, CreatedUser, EditUserBody, EndedSessions, ExportAnswer, PageQuery, PasswordLink, RemovedUser,
    SchemaVersion, SetRole, UserAnswer, UserList,
};
use crate::state::{EditUser, NewUser, UserView};

/// `GET`: lists users, a page at a time.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<PageQuery>,
) -> Result<Response, Failure> {
    let (views, next) = context.state.users(query.after.unwrap_or(0), page(query.limit, PAGE)?).await?;
    Ok(answer(UserList { schema: SchemaVersion, users: views.iter().map(user_entry).collect(), next }))
}

/// `POST`: creates a user. The answer has the link for its password, which no later answer can have.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let CreateUser { name, display_name, email, role } = parse(&body)?;
    let (view, password_link) = context.state.create_user(NewUser { name, display_name, email, role }).await?;
    let version = view.row.version;
    Ok(with_etag(created(CreatedUser { schema: SchemaVersion, user: user_entry(&view), password_link }), version))
}

/// `GET …/{name}`: returns a user by name or number.
pub(super) async fn show(Shared(context): Shared<Context>, Path(name): Path<String>) -> Result<Response, Failure> {
    Ok(one(&context.state.user(&name).await?))
}

/// `PATCH …/{name}`: changes a user. With If-Match only if it still has that version.
pub(super) async fn edit(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let version = if_match(&headers)?;
    let EditUserBody { display_name, email, disabled } = parse(&body)?;
    Ok(one(&context.state.edit_user(&name, EditUser { display_name, email, disabled, version }).await?))
}

/// `DELETE …/{name}`: removes a user with all its data.
pub(super) async fn remove(Shared(context): Shared<Context>, Path(name): Path<String>) -> Result<Response, Failure> {
    let view = context.state.remove_user(&name).await?;
    Ok(answer(RemovedUser { schema: SchemaVersion, removed: user_entry(&view) }))
}

/// `POST …/{name}/role`: sets or takes a role.
pub(super) async fn set_role(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let SetRole { network, role } = parse(&body)?;
    let view = context.state.set_user_role(&name, network.as_deref(), role.as_deref()).await?;
    Ok(with_etag(created(UserAnswer { schema: SchemaVersion, user: user_entry(&view) }), view.row.version))
}

/// `POST …/{name}/password-link`: makes a link for a new password.
pub(super) async fn password_link(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let password_link = context.state.create_password_link(&name).await?;
    Ok(created(PasswordLink { schema: SchemaVersion, password_link }))
}

/// `DELETE …/{name}/sessions`: ends all sessions of a user.
pub(super) async fn end_sessions(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let ended = context.state.end_sessions(&name).await?;
    Ok(answer(EndedSessions { schema: SchemaVersion, ended }))
}

/// `DELETE …/{name}/codes`: turns the one-time codes of a user off.
pub(super) async fn remove_codes(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    Ok(one(&context.state.remove_codes(&name).await?))
}

/// `GET …/{name}/export`: returns everything that is stored about a user.
pub(super) async fn export(Shared(context): Shared<Context>, Path(name): Path<String>) -> Result<Response, Failure> {
    let export = context.state.export_user(&name).await?;
    Ok(answer(ExportAnswer { schema: SchemaVersion, export }))
}

fn one(view: &UserView) -> Response {
    with_etag(answer(UserAnswer { schema: SchemaVersion, user: user_entry(view) }), view.row.version)
}
