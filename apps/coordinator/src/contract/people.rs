//! Requests and answers of `/api/v1/session`, `/api/v1/account`, `/api/v1/users`, `/api/v1/tokens` and `/api/v1/audit`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::SchemaVersion;
use super::fields::nullable;

/// A user. It has no field for a secret (fault E4). A caller without a role in all networks sees another user's email address and last sign-in as null, and its flags as
/// false.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserEntry {
    /// its number
    pub(crate) id: i64,
    /// `local`, or the URL of the OpenID provider; a user is identified by issuer and name
    pub(crate) issuer: String,
    /// name with which it signs in, or the identifier of the OpenID provider
    pub(crate) name: String,
    /// name for people
    pub(crate) display_name: String,
    /// email address, shown only; null if it is unknown
    #[schema(required = true)]
    pub(crate) email: Option<String>,
    /// true if it cannot sign in and has no valid token
    pub(crate) disabled: bool,
    /// true if the OpenID provider does not confirm it any more; signing in again ends that
    #[serde(default)]
    pub(crate) lapsed: bool,
    /// groups of the OpenID provider; empty for local users
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    /// true if it has set a password, or signs in at an OpenID provider
    pub(crate) can_sign_in: bool,
    /// true if it signs in with one-time codes as well
    pub(crate) codes: bool,
    /// its roles, as far as the caller may see them
    pub(crate) roles: Vec<RoleEntry>,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
    /// time at which it last signed in, in seconds since 1970; null for never
    #[schema(required = true)]
    pub(crate) seen_at: Option<i64>,
    /// time at which the OpenID provider last confirmed it, in seconds since 1970; null for local users
    #[schema(required = true)]
    pub(crate) checked_at: Option<i64>,
    /// number that grows with every change, as in the header ETag
    pub(crate) version: u64,
}

/// A role of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Role)]
pub(crate) struct RoleEntry {
    /// name of the network; null for all networks and the coordinator itself
    #[schema(required = true)]
    pub(crate) network: Option<String>,
    /// the role: owner, admin, auditor or member
    pub(crate) role: String,
}

/// `GET /api/v1/users`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct UserList {
    pub(crate) schema: SchemaVersion,
    pub(crate) users: Vec<UserEntry>,
    /// value of `after` for the next page; null at the end
    #[schema(required = true)]
    pub(crate) next: Option<i64>,
}

/// Answer with one user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct UserAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) user: UserEntry,
}

/// Answer to the creation of a user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreatedUser {
    pub(crate) schema: SchemaVersion,
    pub(crate) user: UserEntry,
    /// link with which the user sets its password, once, within three days; no other answer contains it
    pub(crate) password_link: String,
}

/// Answer to the removal of a user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemovedUser {
    pub(crate) schema: SchemaVersion,
    pub(crate) removed: UserEntry,
}

/// `POST /api/v1/users`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreateUser {
    /// name with which it signs in
    #[schema(min_length = 1, max_length = 64, pattern = "^(?![0-9]+$)[a-z0-9][a-z0-9._@+-]*$")]
    pub(crate) name: String,
    /// name for people; the name with which it signs in by default
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    /// email address, shown only
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) email: Option<String>,
    /// role in all networks: owner, admin, auditor or member; none by default
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
}

/// `PATCH /api/v1/users/{name}`: absent fields stay as they are.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = EditUser)]
pub(crate) struct EditUserBody {
    /// name for people
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    /// email address, shown only; null deletes it
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) email: Option<Option<String>>,
    /// true ends its sessions and keeps it from signing in; its tokens do not work meanwhile
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled: Option<bool>,
}

/// `POST /api/v1/users/{name}/role`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SetRole {
    /// name or number of a network; without it the role is for all networks and the coordinator itself
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    /// owner, admin, auditor or member; null takes the role away
    pub(crate) role: Option<String>,
}

/// Answer with a link for a new password.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PasswordLink {
    pub(crate) schema: SchemaVersion,
    /// link with which the user sets its password, once, within three days
    pub(crate) password_link: String,
}

/// Answer to the end of sessions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct EndedSessions {
    pub(crate) schema: SchemaVersion,
    /// number of sessions that were ended
    pub(crate) ended: u64,
}

/// Everything that is stored about a user, without secrets.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = UserExport)]
pub(crate) struct ExportAnswer {
    pub(crate) schema: SchemaVersion,
    /// its account, roles, sessions, tokens and its entries of the audit log
    pub(crate) export: Value,
}

/// `POST /api/v1/sign-in`: signs a user in. The session is in a cookie.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = SignIn)]
pub(crate) struct SignInBody {
    pub(crate) name: String,
    pub(crate) password: String,
    /// one-time code or recovery code, for users who have turned codes on
    pub(crate) code: Option<String>,
}

/// `POST /api/v1/set-up`: makes the first owner.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct SetUp {
    /// secret of the set-up link
    pub(crate) secret: String,
    /// name with which it signs in
    pub(crate) name: String,
    /// name for people
    pub(crate) display_name: Option<String>,
    /// the new password, 10 to 1,024 characters
    pub(crate) password: String,
}

/// `POST /api/v1/password`: sets a password with a link.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct ResetPassword {
    /// secret of the link
    pub(crate) secret: String,
    /// the new password, 10 to 1,024 characters
    pub(crate) password: String,
}

/// `POST /api/v1/account/password`.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangePassword {
    /// the present password
    pub(crate) password: String,
    /// the new password, 10 to 1,024 characters
    pub(crate) new_password: String,
}

/// A request that needs the password again.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct ConfirmPassword {
    pub(crate) password: String,
}

/// `POST /api/v1/account/codes/confirm`.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct CodeBody {
    /// the code that the authenticator shows
    pub(crate) code: String,
}

/// A new secret of one-time codes (RFC 6238), which works after a first code was entered.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = NewCodes)]
pub(crate) struct NewCodesAnswer {
    pub(crate) schema: SchemaVersion,
    /// the secret in base32
    pub(crate) secret: String,
    /// the secret as an `otpauth:` URI
    pub(crate) uri: String,
}

/// Recovery codes; no other answer contains them.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct RecoveryCodes {
    pub(crate) schema: SchemaVersion,
    /// recovery codes, each of which replaces a one-time code once
    pub(crate) recovery_codes: Vec<String>,
}

/// The party of a request, or of an entry of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Actor)]
pub(crate) struct ActorEntry {
    /// kind of the party: person, token, operator-token, command, coordinator or nobody
    pub(crate) kind: String,
    /// number of the user or token; null for other kinds
    #[schema(required = true)]
    pub(crate) id: Option<i64>,
    /// name of the user or token; empty for other kinds
    pub(crate) name: String,
}

/// The party of this request, and what it may do.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) actor: ActorEntry,
    /// the user; null for an operator token, and for an API token of the operator
    #[schema(required = true)]
    pub(crate) user: Option<UserEntry>,
    /// scopes, separated by spaces
    pub(crate) scopes: String,
    /// value of the header X-CSRF-Token for requests of this session that change something; null for tokens
    #[schema(required = true)]
    pub(crate) csrf_token: Option<String>,
    /// time at which the session ends at the latest, in seconds since 1970; null for tokens
    #[schema(required = true)]
    pub(crate) expires_at: Option<i64>,
}

/// A session of the caller.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = OwnSession)]
pub(crate) struct SessionEntry {
    /// its number
    pub(crate) id: i64,
    /// address from which the user signed in
    pub(crate) source: String,
    /// true if it is the session of this request
    pub(crate) current: bool,
    /// time of its beginning, in seconds since 1970
    pub(crate) created_at: i64,
    /// time of its last use, to the minute, in seconds since 1970
    pub(crate) used_at: i64,
    /// time at which it ends at the latest, in seconds since 1970
    pub(crate) expires_at: i64,
}

/// `GET /api/v1/account/sessions`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SessionList {
    pub(crate) schema: SchemaVersion,
    pub(crate) sessions: Vec<SessionEntry>,
}

/// An API token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ApiToken)]
pub(crate) struct ApiTokenEntry {
    /// its number
    pub(crate) id: i64,
    pub(crate) name: String,
    /// name with which its user signs in; null for a token of the operator
    #[schema(required = true)]
    pub(crate) user: Option<String>,
    /// scopes: `all`, or AREA:read and AREA:write, separated by spaces
    pub(crate) scopes: String,
    #[schema(inline)]
    pub(crate) state: ApiTokenState,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
    /// time of its expiry, in seconds since 1970
    #[schema(required = true)]
    pub(crate) expires_at: Option<i64>,
    /// time of its revocation, in seconds since 1970; null if it was not revoked
    #[schema(required = true)]
    pub(crate) revoked_at: Option<i64>,
}

/// State of an API token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ApiTokenState {
    Valid,
    Expired,
    Revoked,
}

impl ApiTokenState {
    /// Returns the state as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// `GET /api/v1/tokens`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ApiTokenList {
    pub(crate) schema: SchemaVersion,
    pub(crate) tokens: Vec<ApiTokenEntry>,
    /// value of `after` for the next page; null at the end
    #[schema(required = true)]
    pub(crate) next: Option<i64>,
}

/// `POST /api/v1/tokens`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreateApiToken {
    /// name of the token, 1 to 64 characters
    pub(crate) name: String,
    /// scopes: `all`, `read`, or AREA:read and AREA:write, separated by spaces
    pub(crate) scopes: String,
    /// seconds until it expires; 90 days by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub(crate) expires_in: Option<i64>,
}

/// Answer to the creation of an API token.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct CreatedApiToken {
    pub(crate) schema: SchemaVersion,
    pub(crate) token: ApiTokenEntry,
    /// the token itself, for the header Authorization; no other answer contains it
    pub(crate) secret: String,
}

/// Answer to the revocation of an API token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RevokedApiToken {
    pub(crate) schema: SchemaVersion,
    /// its number
    pub(crate) revoked: i64,
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditEntry {
    /// its number; numbers grow with time
    pub(crate) id: i64,
    /// time in UTC, such as 2026-11-28T09:00:00.000Z
    pub(crate) time: String,
    /// the party that made the change
    pub(crate) actor: ActorEntry,
    /// address of its client; empty for changes that no request made
    pub(crate) source: String,
    /// id of its request
    pub(crate) request_id: String,
    /// name of the network, or its number if it was removed; null for changes that belong to no network
    #[schema(required = true)]
    pub(crate) network: Option<String>,
    /// kind of change, such as node-renamed
    pub(crate) action: String,
    /// the object, such as `node 7`
    pub(crate) object: String,
    /// the object before the change, as far as it changed
    pub(crate) before: Value,
    /// the object after the change
    pub(crate) after: Value,
}

/// `GET /api/v1/audit`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditList {
    pub(crate) schema: SchemaVersion,
    pub(crate) entries: Vec<AuditEntry>,
    /// value of `after` for the next page; null at the end
    #[schema(required = true)]
    pub(crate) next: Option<i64>,
}

/// Query of a list that comes in pages.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// objects with larger numbers only; `next` of the page before
    #[param(nullable = false)]
    pub(crate) after: Option<i64>,
    /// largest number of objects, up to 500; 100 by default
    #[param(nullable = false, minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
}

/// Query of the audit log.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// entries with larger numbers only; `next` of the page before
    #[param(nullable = false)]
    pub(crate) after: Option<i64>,
    /// largest number of entries, up to 500; 100 by default
    #[param(nullable = false, minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
    /// entries of this time and later, in seconds since 1970
    #[param(nullable = false)]
    pub(crate) since: Option<i64>,
    /// entries before this time, in seconds since 1970
    #[param(nullable = false)]
    pub(crate) until: Option<i64>,
}
