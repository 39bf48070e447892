//! Failures of requests about people.

use std::fmt;

/// The reason for which a request about people was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeopleError {
    /// Unknown name, wrong password, missing, wrong or used code, disabled person: all the same for a client (fault E13).
    SignIn,
    /// The source or the account has failed to sign in too often.
    TooManyAttempts,
    /// Too many passwords wait to be checked.
    Busy,
    /// The caller's role or scopes do not allow the request.
    Forbidden,
    /// Only a person with a session can do this.
    NeedsSession,
    /// The link is unknown, used or expired.
    BadLink,
    /// The code is wrong or was used.
    BadCode,
    /// The password is too short, too long, or equal to the name.
    BadPassword(&'static str),
    /// The name with which to sign in, or the displayed name, is not valid.
    BadName(&'static str),
    /// The email address is not valid.
    BadEmail,
    /// There is no such role.
    BadRole(String),
    /// There is no such scope.
    BadScope(String),
    /// The name of a token is not valid.
    BadTokenName,
    /// The token of a terminal is to live for too long.
    LongTerminalLife,
    /// There is no such person.
    NoPerson(String),
    /// There is a person of this name.
    PersonExists(String),
    /// The number of people has reached its limit.
    TooManyPeople,
    /// The party has as many API tokens as it can have.
    TooManyTokens,
    /// There is no such API token.
    NoToken(i64),
    /// There is no such session.
    NoSession(i64),
    /// The person is the last owner that can sign in.
    LastOwner,
    /// The person has changed since it was read.
    Changed,
    /// The person signs in at an OpenID provider.
    NotLocal,
    /// One-time codes are on already.
    CodesOn,
    /// One-time codes are not on, or not begun.
    CodesOff,
    /// No OpenID provider is configured.
    NoProvider,
    /// The OpenID provider has no sign-in for terminals.
    NoDeviceGrant,
    /// The OpenID provider does not answer.
    ProviderAway,
    /// The sign-in at the provider failed: all reasons are the same for a client (fault E14).
    SignInAtProvider,
    /// The provider knows the person, and the settings do not let it in.
    NotLetIn,
}

impl PeopleError {
    /// Returns advice on how to fix the failure.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::SignIn => {
                "check the name, the password and, if one-time codes are on, a code that was not used; an owner can make a link for a new password"
            }
            Self::TooManyAttempts => "wait for a minute before the next attempt",
            Self::Busy => "try again in a few seconds",
            Self::Forbidden => {
                "ask an owner for a role, or use a token with the scope; `taut-coordinator users whoami` shows what you may do"
            }
            Self::NeedsSession => {
                "sign in with a password: a token cannot do this, so that a stolen one cannot make itself at home"
            }
            Self::BadLink => {
                "ask an owner for a new one (`taut-coordinator users reset NAME`), or run `taut-coordinator users set-up-link` on the coordinator's host"
            }
            Self::BadCode => "enter the code that the authenticator shows now",
            Self::BadPassword(_) => "use 10 to 1,024 characters",
            Self::BadName(_) => {
                "sign-in names have 1 to 64 lower-case letters, digits and the characters `.`, `_`, `-`, `@`, `+`; displayed names up to 128 characters"
            }
            Self::BadEmail => "write NAME@DOMAIN with up to 254 characters",
            Self::BadRole(_) => "roles are owner, admin, auditor and member",
            Self::BadScope(_) => {
                "scopes are all, read, and AREA:read or AREA:write for networks, nodes, keys, relays, policy, users, tokens, audit"
            }
            Self::BadTokenName => "use 1 to 64 printable characters",
            Self::LongTerminalLife => "give a number of seconds from 1 to 604800",
            Self::NoPerson(_) => "`taut-coordinator users list` shows the people that exist",
            Self::PersonExists(_) => "choose another name",
            Self::TooManyPeople => "remove people that are gone (`taut-coordinator users remove`)",
            Self::TooManyTokens => "revoke tokens that are not used (`taut-coordinator tokens revoke`)",
            Self::NoToken(_) => "`taut-coordinator tokens list` shows the tokens that exist",
            Self::NoSession(_) => "the list of sessions shows those that exist",
            Self::LastOwner => "make another person an owner first (`taut-coordinator users role NAME owner`)",
            Self::Changed => "read it again, and repeat the change if it is still wanted",
            Self::NotLocal => "the OpenID provider keeps passwords and codes of this person",
            Self::CodesOn => "turn one-time codes off first",
            Self::CodesOff => "begin with a new secret",
            Self::NoProvider => "sign in with a password, or ask the operator for `serve --oidc-issuer`",
            Self::NoDeviceGrant => {
                "sign in with a browser and make an API token there (docs/people.md, \"Signing in from a terminal\"), or allow the coordinator's client the device authorization grant at the provider"
            }
            Self::ProviderAway => "try again in a minute; the coordinator's log has the reason",
            Self::SignInAtProvider => {
                "sign in again, within ten minutes and where you began; the coordinator's log has the reason"
            }
            Self::NotLetIn => {
                "ask the operator: `serve --oidc-allow-domain` and `--oidc-allow-group` say who may sign in"
            }
        }
    }
}

impl fmt::Display for PeopleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SignIn => f.write_str("these credentials do not open a session"),
            Self::TooManyAttempts => {
                f.write_str("there were too many failed attempts to sign in from this address or for this name")
            }
            Self::Busy => f.write_str("too many passwords are being checked at this moment"),
            Self::Forbidden => f.write_str("your role or the scopes of your token do not allow this request"),
            Self::NeedsSession => f.write_str("only a person who has signed in can do this"),
            Self::BadLink => f.write_str("this link is unknown, was used, or has expired"),
            Self::BadCode => f.write_str("this code is wrong, or was used"),
            Self::BadPassword(why) => write!(f, "this password cannot be used: {why}"),
            Self::BadName(why) => write!(f, "this name cannot be used: {why}"),
            Self::BadEmail => f.write_str("this is not an email address"),
            Self::BadRole(role) => write!(f, "there is no role {role:?}"),
            Self::BadScope(scope) if scope.is_empty() => f.write_str("a token needs a scope"),
            Self::BadScope(scope) => write!(f, "there is no scope {scope:?}"),
            Self::BadTokenName => f.write_str("the name of the token is empty, too long, or not printable"),
            Self::LongTerminalLife => f.write_str("the token of a terminal expires within 7 days"),
            Self::NoPerson(name) => write!(f, "there is no user {name:?}"),
            Self::PersonExists(name) => write!(f, "there already is a user `{name}`"),
            Self::TooManyPeople => f.write_str("this coordinator has as many users as it can have"),
            Self::TooManyTokens => f.write_str("this party has as many API tokens as it can have"),
            Self::NoToken(id) => write!(f, "there is no API token {id}"),
            Self::NoSession(id) => write!(f, "there is no session {id}"),
            Self::LastOwner => {
                f.write_str("this is the last owner who can sign in; without one nobody could manage users any more")
            }
            Self::Changed => f.write_str("this was changed by another request in the meantime"),
            Self::NotLocal => f.write_str("this user has no password at this coordinator"),
            Self::CodesOn => f.write_str("one-time codes are on already"),
            Self::CodesOff => f.write_str("one-time codes are not on"),
            Self::NoProvider => f.write_str("this coordinator has no OpenID provider"),
            Self::NoDeviceGrant => f.write_str(
                "the OpenID provider lets nobody sign in here in a terminal (device authorization grant, RFC 8628)",
            ),
            Self::ProviderAway => f.write_str("the OpenID provider does not answer"),
            Self::SignInAtProvider => f.write_str("the sign-in at the OpenID provider did not succeed"),
            Self::NotLetIn => f.write_str("your account at the OpenID provider may not sign in here"),
        }
    }
}
