//! The part of the table of requests that is about people.

use super::super::route::Route;
use super::{account, audit, session, terminal, tokens, users};
use crate::contract::{
    ApiTokenList, AuditList, AuditQuery, BeginTerminalBody, ChangePassword, CodeBody, ConfirmPassword, CreateApiToken,
    CreateUser, CreatedApiToken, CreatedUser, EditUserBody, EndedSessions, ErrorCode, ExportAnswer, FinishTerminal,
    NewCodesAnswer, PageQuery, PasswordLink, RecoveryCodes, RemovedUser, ResetPassword, RevokedApiToken, SessionAnswer,
    SessionList, SetRole, SetUp, SignInBody, TerminalAnswer, TerminalBegun, UserAnswer, UserList,
};
use crate::state::{Access, Area};

/// Failures of requests that check a password.
const PASSWORD: [ErrorCode; 2] = [ErrorCode::SignInFailed, ErrorCode::TooManyAttempts];

/// Returns this part of the table.
pub(in crate::api::operator) fn routes() -> Vec<Route> {
    [open(), own(), of_users(), others()].into_iter().flatten().collect()
}

/// Requests without a credential.
fn open() -> Vec<Route> {
    vec![
        Route::post("/api/v1/sign-in", "signIn", "Signs a user in; the session is in a cookie.", session::sign_in)
            .front()
            .body::<SignInBody>()
            .answers::<SessionAnswer>()
            .fails(&PASSWORD),
        Route::post(
            "/api/v1/sign-in/terminal",
            "beginTerminalSignIn",
            "Begins to sign in at the OpenID provider in a terminal.",
            terminal::begin,
        )
        .front()
        .body::<BeginTerminalBody>()
        .answers::<TerminalBegun>()
        .fails(&[ErrorCode::BadExpiry, ErrorCode::BadName, ErrorCode::BadScope, ErrorCode::NoSuchPath])
        .fails(&[ErrorCode::TooManyAttempts, ErrorCode::Unavailable]),
        Route::post(
            "/api/v1/sign-in/terminal/finish",
            "finishTerminalSignIn",
            "Says whether the person has signed in; the answer then has an API token of the person.",
            terminal::finish,
        )
        .front()
        .body::<FinishTerminal>()
        .answers::<TerminalAnswer>()
        .fails(&[ErrorCode::Forbidden, ErrorCode::Full, ErrorCode::NoSuchPath])
        .fails(&[ErrorCode::SignInFailed, ErrorCode::Unavailable]),
        Route::post("/api/v1/set-up", "setUp", "Makes the first owner, with the set-up link.", session::set_up)
            .front()
            .body::<SetUp>()
            .answers::<SessionAnswer>()
            .fails(&[ErrorCode::BadLink, ErrorCode::BadName, ErrorCode::BadPassword, ErrorCode::UserExists])
            .fails(&[ErrorCode::TooManyAttempts]),
        Route::post(
            "/api/v1/password",
            "resetPassword",
            "Sets the password of a user, with a link; all its sessions end.",
            session::reset_password,
        )
        .front()
        .body::<ResetPassword>()
        .answers::<EndedSessions>()
        .fails(&[ErrorCode::BadLink, ErrorCode::BadPassword, ErrorCode::TooManyAttempts]),
    ]
}

/// Requests of a user about itself.
fn own() -> Vec<Route> {
    let (read, write) = ((Area::Own, Access::Read), (Area::Own, Access::Write));
    vec![
        Route::get("/api/v1/session", "showSession", "Returns the party of the request.", session::show)
            .needs(read)
            .answers::<SessionAnswer>(),
        Route::delete("/api/v1/session", "signOut", "Ends the session of the request.", session::sign_out)
            .needs(write)
            .by_session()
            .answers::<EndedSessions>(),
        Route::get(
            "/api/v1/account/export",
            "exportAccount",
            "Returns everything that is stored about the caller.",
            account::export,
        )
        .needs(read)
        .by_session()
        .answers::<ExportAnswer>(),
        Route::post(
            "/api/v1/account/password",
            "changePassword",
            "Changes the password; all other sessions end.",
            account::change_password,
        )
        .needs(write)
        .by_session()
        .body::<ChangePassword>()
        .answers::<EndedSessions>()
        .fails(&PASSWORD)
        .fails(&[ErrorCode::BadPassword, ErrorCode::NotLocal]),
        Route::post(
            "/api/v1/account/codes",
            "beginCodes",
            "Begins to turn one-time codes on; only this answer contains their secret.",
            account::begin_codes,
        )
        .needs(write)
        .by_session()
        .body::<ConfirmPassword>()
        .answers::<NewCodesAnswer>()
        .fails(&PASSWORD)
        .fails(&[ErrorCode::Codes, ErrorCode::NotLocal]),
        Route::post(
            "/api/v1/account/codes/confirm",
            "confirmCodes",
            "Turns one-time codes on with a first code.",
            account::confirm_codes,
        )
        .needs(write)
        .by_session()
        .body::<CodeBody>()
        .answers::<RecoveryCodes>()
        .fails(&[ErrorCode::BadCode, ErrorCode::Codes, ErrorCode::TooManyAttempts]),
        Route::post("/api/v1/account/codes/end", "endCodes", "Turns one-time codes off.", account::end_codes)
            .needs(write)
            .by_session()
            .body::<ConfirmPassword>()
            .answers::<EndedSessions>()
            .fails(&PASSWORD)
            .fails(&[ErrorCode::Codes, ErrorCode::NotLocal]),
        Route::get("/api/v1/account/sessions", "listOwnSessions", "Lists the caller's sessions.", account::sessions)
            .needs(read)
            .by_session()
            .answers::<SessionList>(),
        Route::delete(
            "/api/v1/account/sessions",
            "signOutEverywhere",
            "Ends all sessions of the caller.",
            account::end_sessions,
        )
        .needs(write)
        .by_session()
        .answers::<EndedSessions>(),
        Route::delete(
            "/api/v1/account/sessions/{id}",
            "endOwnSession",
            "Ends a session of the caller.",
            account::end_session,
        )
        .numbered_by("id")
        .needs(write)
        .by_session()
        .answers::<EndedSessions>()
        .fails(&[ErrorCode::NoSuchSession]),
    ]
}

/// Requests about users.
fn of_users() -> Vec<Route> {
    let user = "the name with which the user signs in, or its number";
    let (read, write) = ((Area::Users, Access::Read), (Area::Users, Access::Write));
    let unknown = [ErrorCode::NoSuchUser];
    vec![
        Route::get("/api/v1/users", "listUsers", "Lists the users, a page at a time.", users::list)
            .needs(read)
            .everywhere()
            .query::<PageQuery>()
            .answers::<UserList>(),
        Route::post(
            "/api/v1/users",
            "createUser",
            "Creates a user; only this answer contains the link for its password.",
            users::create,
        )
        .needs(write)
        .everywhere()
        .body::<CreateUser>()
        .answers::<CreatedUser>()
        .fails(&[ErrorCode::BadName, ErrorCode::BadRole, ErrorCode::UserExists, ErrorCode::Full]),
        Route::get("/api/v1/users/{name}", "showUser", "Returns one user.", users::show)
            .named_by("name", user)
            .needs(read)
            .everywhere()
            .answers::<UserAnswer>()
            .fails(&unknown),
        Route::patch(
            "/api/v1/users/{name}",
            "editUser",
            "Changes a user; with If-Match only that version.",
            users::edit,
        )
        .named_by("name", user)
        .needs(write)
        .everywhere()
        .body::<EditUserBody>()
        .answers::<UserAnswer>()
        .fails(&[ErrorCode::NoSuchUser, ErrorCode::BadName, ErrorCode::LastOwner, ErrorCode::Changed]),
        Route::delete("/api/v1/users/{name}", "removeUser", "Removes a user with all its data.", users::remove)
            .named_by("name", user)
            .needs(write)
            .everywhere()
            .answers::<RemovedUser>()
            .fails(&[ErrorCode::NoSuchUser, ErrorCode::LastOwner]),
        Route::post("/api/v1/users/{name}/role", "setRole", "Sets or takes a role of a user.", users::set_role)
            .named_by("name", user)
            .needs(write)
            .body::<SetRole>()
            .answers::<UserAnswer>()
            .fails(&[ErrorCode::NoSuchUser, ErrorCode::NoSuchNetwork, ErrorCode::BadRole, ErrorCode::LastOwner]),
        Route::post(
            "/api/v1/users/{name}/password-link",
            "createPasswordLink",
            "Makes a link with which a user sets a new password; earlier ones end.",
            users::password_link,
        )
        .named_by("name", user)
        .needs(write)
        .everywhere()
        .answers::<PasswordLink>()
        .fails(&[ErrorCode::NoSuchUser, ErrorCode::NotLocal]),
        Route::delete(
            "/api/v1/users/{name}/sessions",
            "endSessions",
            "Ends all sessions of a user.",
            users::end_sessions,
        )
        .named_by("name", user)
        .needs(write)
        .everywhere()
        .answers::<EndedSessions>()
        .fails(&unknown),
        Route::delete(
            "/api/v1/users/{name}/codes",
            "removeCodes",
            "Turns the one-time codes of a user off who has lost them.",
            users::remove_codes,
        )
        .named_by("name", user)
        .needs(write)
        .everywhere()
        .answers::<UserAnswer>()
        .fails(&unknown),
        Route::get(
            "/api/v1/users/{name}/export",
            "exportUser",
            "Returns everything that is stored about a user.",
            users::export,
        )
        .named_by("name", user)
        .needs(write)
        .everywhere()
        .answers::<ExportAnswer>()
        .fails(&unknown),
    ]
}

/// Requests about API tokens and the audit log.
fn others() -> Vec<Route> {
    vec![
        Route::get(
            "/api/v1/tokens",
            "listApiTokens",
            "Lists API tokens, without their secrets: all for an owner or auditor, otherwise the caller's.",
            tokens::list,
        )
        .needs((Area::Own, Access::Read))
        .query::<PageQuery>()
        .answers::<ApiTokenList>(),
        Route::post(
            "/api/v1/tokens",
            "createApiToken",
            "Creates an API token of the caller, who must have a session; only this answer contains it.",
            tokens::create,
        )
        .needs((Area::Own, Access::Write))
        .by_session()
        .body::<CreateApiToken>()
        .answers::<CreatedApiToken>()
        .fails(&[ErrorCode::BadName, ErrorCode::BadScope, ErrorCode::BadExpiry, ErrorCode::Full]),
        Route::delete("/api/v1/tokens/{id}", "revokeApiToken", "Revokes an API token.", tokens::revoke)
            .numbered_by("id")
            .needs((Area::Own, Access::Write))
            .answers::<RevokedApiToken>()
            .fails(&[ErrorCode::NoSuchToken]),
        Route::get("/api/v1/audit", "listAudit", "Lists changes, oldest first, a page at a time.", audit::list)
            .needs((Area::Audit, Access::Read))
            .query::<AuditQuery>()
            .answers::<AuditList>(),
    ]
}
