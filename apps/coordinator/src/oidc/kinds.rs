//! The types of the crate `openidconnect` for this client.

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreGrantType, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm,
    CoreJwsSigningAlgorithm, CoreResponseMode, CoreResponseType, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreSubjectIdentifierType, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalProviderMetadata, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenFields,
    ProviderMetadata, RequestTokenError, StandardErrorResponse, StandardTokenResponse,
};
use serde::{Deserialize, Serialize};

use super::claims::OtherClaims;
use super::http::HttpError;

/// Metadata that OpenID Connect Discovery does not define.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct MoreMetadata {
    /// Where a sign-in in a terminal begins (RFC 8628 section 4). Any value, because a provider whose URL is wrong has other sign-ins all the same.
    #[serde(default)]
    pub(super) device_authorization_endpoint: serde_json::Value,
}

impl AdditionalProviderMetadata for MoreMetadata {}

pub(super) type Metadata = ProviderMetadata<
    MoreMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

pub(super) type Tokens = StandardTokenResponse<
    IdTokenFields<
        OtherClaims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

pub(super) type TokenError = RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>;

pub(super) type Client = openidconnect::Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;
