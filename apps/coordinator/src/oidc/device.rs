//! Signing in in a terminal, which no page can come back to: OAuth's device authorization grant (RFC 8628).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use openidconnect::core::{CoreDeviceAuthorizationResponse, CoreErrorResponseType};
use openidconnect::{
    DeviceAuthorizationUrl, DeviceCodeErrorResponse, DeviceCodeErrorResponseType, HttpResponse, Nonce,
    RequestTokenError, Scope,
};
use serde::{Deserialize, Serialize};
use taut_base::is_printable;

use super::http::HttpError;
use super::kinds::TokenError;
use super::provider_error::{of_failure, refuses_client, unavailable};
use super::{Granted, Provider, ProviderError};

/// Longest link and longest code for a person, 512 and 64 bytes, and longest secret of a sign-in, 2 KiB. Real ones have about 80, 9 and 43.
const LONGEST: (usize, usize, usize) = (512, 64, 2_048);

/// Shortest and longest time between two requests for the result, 5 s and 60 s. 5 s is that of a provider that names none (RFC 8628 section 3.2).
const INTERVAL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Longest times that a provider may name, a day: real ones are minutes and seconds.
const LONGEST_TIME: Duration = Duration::from_secs(24 * 3_600);

/// A sign-in that waits for a person, with the secret by which the provider knows it.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeviceAuthorization(CoreDeviceAuthorizationResponse);

/// The provider's answer to the question whether the person has signed in.
pub(crate) enum DevicePoll {
    Granted(Granted),
    /// The person has not signed in yet.
    Pending,
    /// The same, and the question came too soon.
    SlowDown,
}

impl DeviceAuthorization {
    /// Returns the page on which the person enters the code.
    pub(crate) fn link(&self) -> &str {
        self.0.verification_uri().as_str()
    }

    /// Returns the page with the code already entered, if the provider has one.
    pub(crate) fn link_with_code(&self) -> Option<&str> {
        self.0.verification_uri_complete().map(|link| link.secret().as_str())
    }

    /// Returns the code that the person enters.
    pub(crate) fn code(&self) -> &str {
        self.0.user_code().secret()
    }

    /// Returns the time for which the provider waits for the person.
    pub(crate) fn life(&self) -> Duration {
        self.0.expires_in()
    }

    /// Returns the least time between two polls.
    pub(crate) fn interval(&self) -> Duration {
        self.0.interval().clamp(INTERVAL.0, INTERVAL.1)
    }

    /// Returns why the answer of the provider cannot be shown, if it cannot. `accepts` decides about a link's scheme.
    fn flaw(&self, accepts: impl Fn(&str) -> bool) -> Option<&'static str> {
        let links = [Some(self.link()), self.link_with_code()];
        let is_link = |link: &str| {
            let scheme = link.split_once("://").map_or("", |(scheme, _)| scheme);
            link.len() <= LONGEST.0 && link.bytes().all(|byte| byte.is_ascii_graphic()) && accepts(scheme)
        };
        if !links.into_iter().flatten().all(is_link) {
            return Some("its page for a code is not at a short https URL");
        }
        let code = self.code();
        if code.is_empty() || code.len() > LONGEST.1 || !code.chars().all(is_printable) {
            return Some("its code is empty, too long, or not printable");
        }
        let secret = self.0.device_code().secret();
        if secret.len() > LONGEST.2 || !secret.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Some("its device code is too long, or has characters that no such code has");
        }
        // Calculations of the crate with longer times overflow.
        let times = [self.0.expires_in(), self.0.interval()];
        (times[0].is_zero() || times.into_iter().any(|time| time > LONGEST_TIME)).then_some("its times are none")
    }
}

impl Provider {
    /// Begins a sign-in in a terminal.
    pub(crate) async fn device_authorization(self: &Arc<Self>) -> Result<DeviceAuthorization, ProviderError> {
        self.blocking(|provider| {
            let known = provider.metadata()?;
            let url = known.metadata.additional_metadata().device_authorization_endpoint.as_str().map(String::from);
            let url = url.ok_or(ProviderError::NoDeviceGrant("the provider has no device_authorization_endpoint"))?;
            let url = DeviceAuthorizationUrl::new(url).map_err(unavailable)?;
            let client = provider.client(&known)?.set_device_authorization_url(url);
            let scopes = provider.options().scopes.iter().cloned().map(Scope::new);
            let mut request = client.exchange_device_code().add_scopes(scopes);
            for (name, value) in &provider.options().parameters {
                request = request.add_extra_param(name.as_str(), value.as_str());
            }
            let answer = request.request(&|request| provider.http.send(request)).map_err(of_beginning)?;
            let begun = DeviceAuthorization(answer);
            match begun.flaw(|scheme| provider.http.accepts(scheme)) {
                Some(flaw) => Err(ProviderError::Unavailable(String::from(flaw))),
                None => Ok(begun),
            }
        })
        .await
    }

    /// Asks once whether the person has signed in. There is no nonce: nothing of this sign-in passes a browser, in which one could be exchanged for another. The ID
    /// token is the answer to this request, which names the secret of this sign-in and of this client. One with a nonce was made for another sign-in.
    pub(crate) async fn poll_device(self: &Arc<Self>, begun: DeviceAuthorization) -> Result<DevicePoll, ProviderError> {
        self.blocking(move |provider| {
            let known = provider.metadata()?;
            let client = provider.client(&known)?;
            let request = client.exchange_device_access_token(&begun.0).map_err(unavailable)?;
            // The crate asks until there is a result. A second request is not sent, and has an answer that ends that.
            let (asked, pause, failed) = (Cell::new(false), Cell::new(None), RefCell::new(None));
            let send = |request| match asked.replace(true) {
                false => provider.http.send(request).inspect_err(|error| _ = failed.replace(Some(error.to_string()))),
                true => Ok(no_more()),
            };
            let answer = request.request(&send, |next| pause.set(Some(next)), None);
            if let Some(error) = failed.take() {
                return Err(ProviderError::Unavailable(error));
            }
            match pause.get() {
                Some(next) if next > begun.0.interval() => return Ok(DevicePoll::SlowDown),
                Some(_) => return Ok(DevicePoll::Pending),
                None => {}
            }
            let tokens = answer.map_err(of_poll)?;
            let no_nonce = |nonce: Option<&Nonce>| match nonce {
                None => Ok(()),
                Some(_) => Err(String::from("it was made for another sign-in")),
            };
            let identity = provider.identity(&known, &tokens, no_nonce, None)?;
            provider.granted(identity, &tokens).map(DevicePoll::Granted)
        })
        .await
    }
}

/// Returns the answer to a request that is not sent.
fn no_more() -> HttpResponse {
    let mut answer = HttpResponse::new(br#"{"error":"expired_token"}"#.to_vec());
    *answer.status_mut() = ureq::http::StatusCode::BAD_REQUEST;
    answer
}

/// A provider that refuses this client the grant will refuse each further attempt.
fn of_beginning(error: TokenError) -> ProviderError {
    of_failure(error, |answer| match answer.error() {
        CoreErrorResponseType::UnauthorizedClient => {
            ProviderError::NoDeviceGrant("the provider does not allow this client the device authorization grant")
        }
        other => refuses_client(other),
    })
}

/// Returns the failure of a sign-in that the person refused, that has expired, or that was finished before.
fn of_poll(error: RequestTokenError<HttpError, DeviceCodeErrorResponse>) -> ProviderError {
    of_failure(error, |answer| match answer.error() {
        DeviceCodeErrorResponseType::AccessDenied
        | DeviceCodeErrorResponseType::ExpiredToken
        | DeviceCodeErrorResponseType::Basic(CoreErrorResponseType::InvalidGrant) => {
            ProviderError::Refused(String::from(answer.error().as_ref()))
        }
        other => refuses_client(other),
    })
}
