//! The client of an OpenID provider: where it is, what it says about a person, and whether that person may sign in. It knows neither the database nor browsers.
//!
//! The crate `openidconnect` checks tokens. Requests go through [`crate::outgoing`], which connects to checked addresses only (fault E15).

mod claims;
mod device;
mod http;
mod kinds;
mod provider;
mod provider_error;

pub(crate) use claims::Identity;
pub(crate) use device::{DeviceAuthorization, DevicePoll};
pub(crate) use provider::{Granted, Provider};
pub(crate) use provider_error::ProviderError;

use std::time::Duration;

use zeroize::Zeroizing;

/// Claim with the groups of a person, by default.
pub(crate) const GROUPS_CLAIM: &str = "groups";

/// Scopes that are asked for beside `openid`, by default. `offline_access` asks for a refresh token.
pub(crate) const SCOPES: [&str; 3] = ["profile", "email", "offline_access"];

/// Time after which a person is confirmed again, by default, 60 minutes.
pub(crate) const REFRESH_MINUTES: u64 = 60;

/// An allowed domain that stands for every person of the provider.
pub(crate) const ANY_DOMAIN: &str = "*";

/// What `serve` was told about the provider.
#[derive(Clone)]
pub(crate) struct OidcOptions {
    /// The issuer's URL, exactly as the provider spells it.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Zeroizing<String>,
    /// Scopes beside `openid`.
    pub(crate) scopes: Vec<String>,
    /// Further parameters of the request with which a sign-in begins, by name.
    pub(crate) parameters: Vec<(String, String)>,
    /// Name of the claim with the groups of a person.
    pub(crate) groups_claim: String,
    /// Domains of confirmed email addresses with which people may sign in; empty for no such rule.
    pub(crate) domains: Vec<String>,
    /// Groups of which a person needs one; empty for no such rule.
    pub(crate) groups: Vec<String>,
    /// Time after which a person is confirmed again.
    pub(crate) refresh_every: Duration,
    /// True if the provider may have a private or loopback address.
    pub(crate) allow_private: bool,
}
