//! People: signing in, roles, sessions, links and API tokens, and the audit log. docs/internals/people.md explains the states of sessions and links.

mod account;
mod answers;
mod api_tokens;
mod audit;
mod export;
mod failed_sign_ins;
mod groups;
mod limits;
mod links;
mod oidc;
mod passwords;
mod refresh;
mod sealed;
mod sessions;
mod sign_in;
mod terminal;
mod totp;
mod users;

pub(crate) use account::NewCodes;
pub(crate) use answers::{Earlier, Repeatable};
pub(crate) use api_tokens::{API_PREFIX, LONGEST_TOKEN_LIFE, TokenView};
pub(crate) use audit::AuditView;
pub(super) use groups::{GroupsOf, users as users_of_policy};
pub(super) use links::{SET_UP, insert as insert_link, url as link_url};
pub(crate) use oidc::{OidcReturn, SIGN_IN_LIFE};
pub(crate) use passwords::Password;
pub(crate) use sessions::{ABSOLUTE_LIFE, IDLE_LIFE, Known, csrf_token};
pub(crate) use sign_in::{Attempt, Opened};
pub(crate) use terminal::{LONGEST_TERMINAL_LIFE, NewTerminal, TerminalAnswer};
pub(crate) use users::{EditUser, NewUser, RoleView, UserView};

use super::party::{Access, Actor, Area, Caller, Change, Grants, Need, PeopleError, Role, Scopes, record};
pub(super) use api_tokens::create as create_token;
use failed_sign_ins::FailedSignIns;
use limits::SignInLimits;
use passwords::Passwords;

use std::sync::Arc;

use crate::oidc::Provider;

/// Most entries of a page, 500.
pub(crate) const LARGEST_PAGE: u32 = 500;

/// State in memory about people who sign in.
pub(super) struct People {
    passwords: Passwords,
    limits: SignInLimits,
    failures: FailedSignIns,
    /// `None` if people sign in with passwords only.
    provider: Option<Arc<Provider>>,
    /// Time for which entries of the audit log are kept, in seconds.
    audit_life: i64,
}

impl People {
    /// `audit_life` is the time for which entries of the audit log are kept, in seconds.
    pub(super) fn new(audit_life: i64, provider: Option<Arc<Provider>>) -> Self {
        Self {
            passwords: Passwords::new(),
            limits: SignInLimits::new(),
            failures: FailedSignIns::default(),
            provider,
            audit_life,
        }
    }
}
