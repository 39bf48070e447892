//! Requests and answers of `/api/v1/sign-in/terminal`: signing in at the OpenID provider in a terminal (RFC 8628).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ApiTokenEntry, SchemaVersion};

/// `POST /api/v1/sign-in/terminal`: begins to sign in.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BeginTerminal)]
pub(crate) struct BeginTerminalBody {
    /// name of the API token, 1 to 64 characters; `terminal` by default
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// scopes of the API token: `all`, which is the default, `read`, or AREA:read and AREA:write, separated by spaces
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scopes: Option<String>,
    /// seconds until the API token expires; 12 hours by default
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub(crate) expires_in: Option<i64>,
}

/// A sign-in that has begun: what to show to the person, and how to ask for the result.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct TerminalBegun {
    pub(crate) schema: SchemaVersion,
    /// secret with which this terminal alone asks for the result
    pub(crate) secret: String,
    /// code for the person, who enters it on the page
    pub(crate) code: String,
    /// URL of the provider's page
    pub(crate) page: String,
    /// URL of the same page with the code already entered; null if the provider has none
    #[schema(required = true)]
    pub(crate) page_with_code: Option<String>,
    /// seconds that the person has
    pub(crate) expires_in: i64,
    /// least time between two requests for the result, in seconds
    pub(crate) interval: u64,
}

/// `POST /api/v1/sign-in/terminal/finish`: asks for the result.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct FinishTerminal {
    /// secret of the sign-in
    pub(crate) secret: String,
}

/// The result of a sign-in in a terminal.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct TerminalAnswer {
    pub(crate) schema: SchemaVersion,
    #[schema(inline)]
    pub(crate) state: TerminalState,
    /// the API token; null until the person has signed in
    #[schema(required = true)]
    pub(crate) token: Option<ApiTokenEntry>,
    /// the API token itself, for the header Authorization; no other answer contains it
    #[schema(required = true)]
    pub(crate) secret: Option<String>,
}

/// State of a sign-in in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TerminalState {
    /// The person has not signed in yet: ask again after the interval.
    Pending,
    /// The same, and the request came too soon: ask again after an interval that is 5 s longer.
    SlowDown,
    /// The person has signed in.
    Done,
}
