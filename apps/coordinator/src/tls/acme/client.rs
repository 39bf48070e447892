//! Requests to an ACME server: signed messages (RFC 8555 section 6) of one account.

use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use taut_base::encode_base64url;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

use super::super::issue::NO_KEY;

/// Largest answer that is read, 1 MiB: a chain of certificates has a few KiB.
const LARGEST: u64 = 1 << 20;

/// Attempts of a request whose nonce the server refuses, 5: servers may refuse one at any time (RFC 8555 section 6.5).
const ATTEMPTS: u32 = 5;

/// Type of the refusal of a nonce.
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// URLs of a server (RFC 8555 section 7.1.1).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Directory {
    new_nonce: String,
    new_account: String,
    pub(super) new_order: String,
}

/// A problem that a server reports (RFC 7807).
#[derive(Deserialize)]
pub(super) struct Problem {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    subproblems: Vec<Problem>,
}

impl Problem {
    /// Returns the server's reason, with the reasons for single names.
    pub(super) fn reason(&self) -> String {
        let kind = self.r#type.rsplit(':').next().unwrap_or_default();
        let details = self.subproblems.iter().map(|problem| format!("; {}", problem.reason())).collect::<String>();
        format!("{kind}: {}{details}", self.detail)
    }
}

/// The reason for a failure, and the pause that the server asks for.
#[derive(Debug)]
pub(super) struct AcmeError {
    pub(super) reason: String,
    pub(super) retry_after: Option<Duration>,
}

impl AcmeError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retry_after: None }
    }
}

/// An answer.
pub(super) struct Answer {
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Returns the URL of what the request made.
    pub(super) fn location(&self) -> Result<String, AcmeError> {
        self.header("location").ok_or_else(|| AcmeError::new("the server's answer has no Location"))
    }

    /// Returns the pause that the server asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.parse().ok().map(Duration::from_secs)
    }

    pub(super) fn read<T: for<'a> Deserialize<'a>>(&self) -> Result<T, AcmeError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| AcmeError::new(format!("the server's answer is not that of RFC 8555: {error}")))
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name)?.to_str().ok().map(String::from)
    }
}

/// A session with a server.
pub(super) struct Client {
    agent: Agent,
    pub(super) directory: Directory,
    key: EcdsaKeyPair,
    /// URL of the account.
    account: Option<String>,
    nonce: Option<String>,
}

impl Client {
    /// Reads the server's directory, and signs in with the account of this key, which is made if there is none.
    pub(super) fn sign_in(
        agent: Agent,
        directory: &str,
        pkcs8: &[u8],
        contact: Option<&str>,
    ) -> Result<Self, AcmeError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new())
            .map_err(|_| AcmeError::new("the key of the account is damaged"))?;
        let found = send(&agent, Method::GET, directory, None)?;
        let directory = success(found)?.read()?;
        let mut client = Self { agent, directory, key, account: None, nonce: None };
        let contact: Vec<String> = contact.iter().map(|address| format!("mailto:{address}")).collect();
        let url = client.directory.new_account.clone();
        let account = client.post(&url, &json!({ "termsOfServiceAgreed": true, "contact": contact }))?;
        client.account = Some(account.location()?);
        Ok(client)
    }

    /// Sends a signed message.
    pub(super) fn post(&mut self, url: &str, payload: &Value) -> Result<Answer, AcmeError> {
        self.post_bytes(url, payload.to_string().as_bytes())
    }

    /// Reads a resource (POST-as-GET, RFC 8555 section 6.3).
    pub(super) fn get(&mut self, url: &str) -> Result<Answer, AcmeError> {
        self.post_bytes(url, b"")
    }

    fn post_bytes(&mut self, url: &str, payload: &[u8]) -> Result<Answer, AcmeError> {
        for _ in 0..ATTEMPTS {
            let nonce = match self.nonce.take() {
                Some(nonce) => nonce,
                None => {
                    let (_, answer) = send(&self.agent, Method::HEAD, &self.directory.new_nonce, None)?;
                    answer.header("replay-nonce").ok_or_else(|| AcmeError::new("the server gives no nonce"))?
                }
            };
            let message = self.sign(url, &nonce, payload)?;
            let (status, answer) = send(&self.agent, Method::POST, url, Some(&message))?;
            self.nonce = answer.header("replay-nonce");
            let is_bad_nonce = status >= 400 && answer.read::<Problem>().is_ok_and(|it| it.r#type == BAD_NONCE);
            if !is_bad_nonce {
                return success((status, answer));
            }
        }
        Err(AcmeError::new("the server accepts no nonce"))
    }

    /// Returns a message in the flattened JSON form of RFC 7515, signed with ES256.
    fn sign(&self, url: &str, nonce: &str, payload: &[u8]) -> Result<String, AcmeError> {
        let mut header = json!({ "alg": "ES256", "nonce": nonce, "url": url });
        match &self.account {
            Some(account) => header["kid"] = json!(account),
            None => {
                let [x, y] = self.coordinates();
                header["jwk"] = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y });
            }
        }
        let (protected, payload) = (encode_base64url(header.to_string().as_bytes()), encode_base64url(payload));
        let signed = format!("{protected}.{payload}");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| AcmeError::new(NO_KEY))?;
        let signature = encode_base64url(signature.as_ref());
        Ok(json!({ "protected": protected, "payload": payload, "signature": signature }).to_string())
    }

    /// Returns what a check looks for: the challenge's token, and the thumbprint of the account's key (RFC 8555 section 8.1).
    pub(super) fn key_authorization(&self, token: &str) -> String {
        let [x, y] = self.coordinates();
        // The members in the order of RFC 7638.
        let key = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        format!("{token}.{}", encode_base64url(digest(&SHA256, key.as_bytes()).as_ref()))
    }

    fn coordinates(&self) -> [String; 2] {
        // The point is not compressed: a byte 4, then two coordinates of 32 bytes.
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        [x, y].map(encode_base64url)
    }
}

/// Sends a request, and reads its answer of any status.
fn send(agent: &Agent, method: Method, url: &str, body: Option<&str>) -> Result<(u16, Answer), AcmeError> {
    let failed = |error: ureq::Error| AcmeError::new(format!("{url}: {error}"));
    let request = Request::builder().method(method).uri(url).header("content-type", "application/jose+json");
    let response = match body {
        Some(body) => request.body(body).map(|request| agent.run(request)),
        None => request.body(()).map(|request| agent.run(request)),
    };
    let mut response = response.map_err(|error| AcmeError::new(format!("{url}: {error}")))?.map_err(failed)?;
    let body = response.body_mut().with_config().limit(LARGEST).read_to_vec().map_err(failed)?;
    Ok((response.status().as_u16(), Answer { headers: response.headers().clone(), body }))
}

/// Returns an answer unless it reports a failure.
fn success((status, answer): (u16, Answer)) -> Result<Answer, AcmeError> {
    if status < 400 {
        return Ok(answer);
    }
    let reason = answer.read::<Problem>().map(|problem| problem.reason());
    let reason = reason.unwrap_or_else(|_| format!("the server answers with status {status}"));
    Err(AcmeError { reason, retry_after: answer.retry_after() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_kind_and_its_parts() {
        let text = r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"Some of the identifiers were rejected",
            "subproblems":[{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"no such name"}]}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(
            problem.reason(),
            "malformed: Some of the identifiers were rejected; rejectedIdentifier: no such name"
        );
    }
}
