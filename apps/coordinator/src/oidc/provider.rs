//! The provider: its metadata and keys, and the exchange of codes and refresh tokens for what it says about a person.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openidconnect::core::{CoreAuthenticationFlow, CoreClientAuthMethod, CoreGenderClaim, CoreJwsSigningAlgorithm};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClientId, ClientSecret, CsrfToken, IssuerUrl, Nonce, NonceVerifier,
    OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, Scope, SubjectIdentifier,
    TokenResponse, UserInfoClaims,
};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::claims::{OtherClaims, Said};
use super::http::Http;
use super::kinds::{Client, Metadata, Tokens};
use super::provider_error::{ProviderError, invalid, of_request, unavailable};
use super::{Identity, OidcOptions};

/// Time for which metadata and keys are kept, 10 minutes: a key that the provider withdraws is not accepted for longer.
const METADATA_LIFE: Duration = Duration::from_secs(600);

/// Least time between two reads of the provider's keys, 30 s. A token that names an unknown key causes a read, and a client could send such tokens without pause.
const KEYS_EVERY: Duration = Duration::from_secs(30);

/// Requests that run at once, 8. Each takes a thread.
const AT_ONCE: usize = 8;

/// Algorithms of signatures that are accepted: asymmetric ones (fault E14). Not `none`, and not HMAC, whose key would be the client secret.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Takes what is needed from claims. A macro, because the two types of claims have the same methods and no trait in common.
macro_rules! said {
    ($claims:expr) => {{
        let name = $claims.name().and_then(|names| names.get(None)).map(|name| name.to_string());
        Said {
            name: name.or_else(|| $claims.preferred_username().map(|name| name.to_string())),
            email: $claims.email().map(|email| email.to_string()),
            is_email_confirmed: $claims.email_verified() == Some(true),
            other: $claims.additional_claims(),
        }
    }};
}

/// Where a browser goes to sign in, and the secrets of that sign-in.
pub(crate) struct Authorization {
    pub(crate) url: String,
    /// Proves to the provider that this coordinator began (RFC 7636).
    pub(crate) verifier: Zeroizing<String>,
    /// Binds the ID token to this sign-in.
    pub(crate) nonce: String,
}

/// The provider's answer about a person who may sign in.
pub(crate) struct Granted {
    pub(crate) identity: Identity,
    /// A new refresh token; `None` if the provider gave none.
    pub(crate) refresh_token: Option<Zeroizing<String>>,
}

/// Metadata and keys, and when they were read.
pub(super) struct Known {
    at: Instant,
    pub(super) metadata: Metadata,
}

/// The provider of people who sign in by OpenID Connect.
pub(crate) struct Provider {
    options: OidcOptions,
    issuer: IssuerUrl,
    pub(super) http: Http,
    known: Mutex<Option<Arc<Known>>>,
    places: Semaphore,
}

impl Provider {
    /// Asks nothing yet: the coordinator starts also while its provider is away.
    pub(crate) fn new(options: OidcOptions) -> Result<Self, String> {
        let issuer = IssuerUrl::new(options.issuer.clone()).map_err(|error| error.to_string())?;
        let http = Http::new(issuer.url().scheme() == "http", options.allow_private)?;
        Ok(Self { options, issuer, http, known: Mutex::default(), places: Semaphore::new(AT_ONCE) })
    }

    pub(crate) fn options(&self) -> &OidcOptions {
        &self.options
    }

    /// Begins a sign-in that returns to `redirect` with `state`.
    pub(crate) async fn authorization(
        self: &Arc<Self>,
        redirect: String,
        state: String,
    ) -> Result<Authorization, ProviderError> {
        self.blocking(move |provider| {
            let client = provider.client(&*provider.metadata()?)?.set_redirect_uri(redirect_url(redirect)?);
            let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
            let scopes = provider.options.scopes.iter().cloned().map(Scope::new);
            let state = move || CsrfToken::new(state);
            let mut request = client.authorize_url(CoreAuthenticationFlow::AuthorizationCode, state, Nonce::new_random);
            for (name, value) in &provider.options.parameters {
                request = request.add_extra_param(name.as_str(), value.as_str());
            }
            let (url, _, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
            if !provider.http.accepts(url.scheme()) {
                return Err(ProviderError::Unavailable(String::from("its page to sign in is not at an https URL")));
            }
            let verifier = Zeroizing::new(verifier.into_secret());
            Ok(Authorization { url: url.to_string(), verifier, nonce: nonce.secret().clone() })
        })
        .await
    }

    /// Exchanges the code of a sign-in for what the provider says about the person.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        redirect: String,
        code: Zeroizing<String>,
        verifier: Zeroizing<String>,
        nonce: String,
    ) -> Result<Granted, ProviderError> {
        self.blocking(move |provider| {
            let known = provider.metadata()?;
            let client = provider.client(&known)?.set_redirect_uri(redirect_url(redirect)?);
            let request = client.exchange_code(AuthorizationCode::new(code.to_string())).map_err(unavailable)?;
            let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier.to_string()));
            let tokens = request.request(&|request| provider.http.send(request)).map_err(of_request)?;
            let nonce = Nonce::new(nonce);
            let identity = provider.identity(&known, &tokens, &nonce, None)?;
            provider.granted(identity, &tokens)
        })
        .await
    }

    /// Asks the provider whether it still confirms a person.
    pub(crate) async fn refresh(
        self: &Arc<Self>,
        token: Zeroizing<String>,
        subject: String,
    ) -> Result<Granted, ProviderError> {
        self.blocking(move |provider| {
            let known = provider.metadata()?;
            let client = provider.client(&known)?;
            let token = RefreshToken::new(token.to_string());
            let request = client.exchange_refresh_token(&token).map_err(unavailable)?;
            let tokens = request.request(&|request| provider.http.send(request)).map_err(of_request)?;
            // The nonce belongs to the sign-in alone (OpenID Connect Core 1.0 section 12.2).
            let any_nonce = |_: Option<&Nonce>| Ok(());
            let identity = provider.identity(&known, &tokens, any_nonce, Some(&subject))?;
            provider.granted(identity, &tokens)
        })
        .await
    }

    /// Runs requests, which block, in a thread, when there is a place.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&Self) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let provider = Arc::clone(self);
        let _place = self.places.acquire().await.map_err(unavailable)?;
        tokio::task::spawn_blocking(move || run(&provider)).await.map_err(unavailable)?
    }

    /// Returns metadata and keys, read within the last minutes.
    pub(super) fn metadata(&self) -> Result<Arc<Known>, ProviderError> {
        self.metadata_since(METADATA_LIFE)
    }

    /// Returns metadata and keys that are not older than `age`.
    fn metadata_since(&self, age: Duration) -> Result<Arc<Known>, ProviderError> {
        let kept = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = kept.filter(|known| known.at.elapsed() < age) {
            return Ok(known);
        }
        let metadata = Metadata::discover(&self.issuer, &|request| self.http.send(request)).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            ProviderError::Unavailable(format!("{error}{cause}"))
        })?;
        let known = Arc::new(Known { at: Instant::now(), metadata });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        Ok(known)
    }

    pub(super) fn client(&self, known: &Known) -> Result<Client, ProviderError> {
        let (id, secret) = (self.options.client_id.clone(), self.options.client_secret.to_string());
        let client =
            Client::from_provider_metadata(known.metadata.clone(), ClientId::new(id), Some(ClientSecret::new(secret)));
        // A provider that lists no methods has that of the header (OpenID Connect Discovery 1.0 section 3).
        let methods = known.metadata.token_endpoint_auth_methods_supported();
        let has_header = methods.is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let method = if has_header { AuthType::BasicAuth } else { AuthType::RequestBody };
        Ok(client.set_auth_type(method))
    }

    /// Returns what the tokens say about the person: the ID token if there is one, then the answer of the user info endpoint. `subject` is the person that is expected.
    pub(super) fn identity(
        &self,
        known: &Known,
        tokens: &Tokens,
        nonce: impl NonceVerifier + Copy,
        subject: Option<&str>,
    ) -> Result<Identity, ProviderError> {
        let client = self.client(known)?;
        let mut identity = match (self.of_id_token(&client, tokens, nonce), subject) {
            (Ok(Some(identity)), _) => identity,
            // A refresh need not return an ID token.
            (Ok(None), Some(subject)) => Identity::new(subject).map_err(ProviderError::Invalid)?,
            (Ok(None), None) => return Err(ProviderError::Invalid(String::from("there is no ID token"))),
            (Err(first), _) => {
                // The provider may have new keys.
                let newer = self.metadata_since(KEYS_EVERY)?;
                if newer.at == known.at {
                    return Err(first);
                }
                self.of_id_token(&self.client(&newer)?, tokens, nonce)?.ok_or(first)?
            }
        };
        if subject.is_some_and(|subject| subject != identity.subject) {
            return Err(ProviderError::Invalid(String::from("the answer is about another person")));
        }
        self.add_user_info(&client, tokens, &mut identity)?;
        Ok(identity)
    }

    /// Returns what the ID token says, after all checks; `None` if there is none.
    fn of_id_token(
        &self,
        client: &Client,
        tokens: &Tokens,
        nonce: impl NonceVerifier,
    ) -> Result<Option<Identity>, ProviderError> {
        let Some(token) = tokens.id_token() else { return Ok(None) };
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
        let claims = token.claims(&verifier, nonce).map_err(invalid)?;
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = token.signing_alg().map_err(invalid)?;
            let key = token.signing_key(&verifier).map_err(invalid)?;
            let found = AccessTokenHash::from_token(tokens.access_token(), algorithm, key).map_err(invalid)?;
            if found != *expected {
                return Err(ProviderError::Invalid(String::from("the access token is not that of the ID token")));
            }
        }
        let mut identity = Identity::new(claims.subject()).map_err(ProviderError::Invalid)?;
        identity.add(said!(claims), &self.options.groups_claim).map_err(ProviderError::Invalid)?;
        Ok(Some(identity))
    }

    /// Adds the claims of the user info endpoint, if there is one: many providers have email and groups there only.
    fn add_user_info(&self, client: &Client, tokens: &Tokens, identity: &mut Identity) -> Result<(), ProviderError> {
        if client.user_info_url().is_none() {
            return Ok(());
        }
        let subject = SubjectIdentifier::new(identity.subject.clone());
        let request = client.user_info(tokens.access_token().clone(), Some(subject)).map_err(unavailable)?;
        let answer: Result<UserInfoClaims<OtherClaims, CoreGenderClaim>, _> =
            request.request(&|request| self.http.send(request));
        let claims = answer.map_err(|error| match error {
            openidconnect::UserInfoError::ClaimsVerification(error) => invalid(error),
            other => unavailable(other),
        })?;
        identity.add(said!(claims), &self.options.groups_claim).map_err(ProviderError::Invalid)
    }

    /// Returns the answer about a person that the settings let in.
    pub(super) fn granted(&self, identity: Identity, tokens: &Tokens) -> Result<Granted, ProviderError> {
        identity.check(&self.options).map_err(ProviderError::NotAllowed)?;
        let refresh_token = tokens.refresh_token().map(|token| Zeroizing::new(token.secret().clone()));
        Ok(Granted { identity, refresh_token })
    }
}

fn redirect_url(text: String) -> Result<RedirectUrl, ProviderError> {
    RedirectUrl::new(text).map_err(unavailable)
}
