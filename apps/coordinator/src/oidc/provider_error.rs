//! Why the provider did not confirm a person.

use std::fmt;

use openidconnect::core::CoreErrorResponseType;
use openidconnect::{ErrorResponse, RequestTokenError};

use super::http::HttpError;
use super::kinds::TokenError;

/// The reason for which the provider did not confirm a person. No reason contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderError {
    /// The provider does not answer, or not as a provider does; nothing is known about the person.
    Unavailable(String),
    /// The provider says that code or refresh token are not valid (any more).
    Refused(String),
    /// The answer is not valid: it may not come from the provider, or was not made for this sign-in.
    Invalid(String),
    /// The person is the provider's, and the settings do not let it in.
    NotAllowed(&'static str),
    /// The provider lets no one sign in in a terminal, or not with this client.
    NoDeviceGrant(&'static str),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the provider does not answer as one: {why}"),
            Self::Refused(why) => write!(f, "the provider refused: {why}"),
            Self::Invalid(why) => write!(f, "the provider's answer is not valid: {why}"),
            Self::NotAllowed(why) | Self::NoDeviceGrant(why) => f.write_str(why),
        }
    }
}

pub(super) fn unavailable(error: impl fmt::Display) -> ProviderError {
    ProviderError::Unavailable(error.to_string())
}

pub(super) fn invalid(error: impl fmt::Display) -> ProviderError {
    ProviderError::Invalid(error.to_string())
}

/// Only `invalid_grant` says something about the person: a wrong client secret, for example, is no reason to take access from everyone.
pub(super) fn of_request(error: TokenError) -> ProviderError {
    of_failure(error, |answer| match answer.error() {
        CoreErrorResponseType::InvalidGrant => ProviderError::Refused(String::from("invalid_grant")),
        other => refuses_client(other),
    })
}

/// Returns the failure of a request. `of_answer` judges a refusal of the provider.
pub(super) fn of_failure<E: ErrorResponse + 'static>(
    error: RequestTokenError<HttpError, E>,
    of_answer: impl FnOnce(&E) -> ProviderError,
) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(answer) => of_answer(&answer),
        RequestTokenError::Request(error) => unavailable(error),
        // Without what was parsed, which contains tokens.
        RequestTokenError::Parse(error, _) => {
            ProviderError::Unavailable(format!("its answer cannot be read at `{}`", error.path()))
        }
        RequestTokenError::Other(why) => ProviderError::Unavailable(why),
    }
}

pub(super) fn refuses_client(why: &impl AsRef<str>) -> ProviderError {
    ProviderError::Unavailable(format!("it refuses the client: {}", why.as_ref()))
}
