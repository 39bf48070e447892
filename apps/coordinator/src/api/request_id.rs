//! Ids of requests: in every answer (header `X-Request-Id`), in error answers (field `request_id`) and in every line of the log about a request.
//!
//! A trusted proxy may send an id of its own, so that its log and this one can be joined. Other clients cannot: they would choose what is in the log.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use taut_relay_server::Pass;

use crate::state::random;

/// The header of requests and answers.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id of a proxy, in characters: a UUID has 36, an id of the W3C trace context 55.
const MAX_LENGTH: usize = 64;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestId(String);

impl RequestId {
    /// Returns the id that a trusted proxy sent, or a new random one.
    pub(super) fn of(headers: &HeaderMap, pass: &Pass) -> Self {
        let sent = headers.get(HEADER).filter(|_| pass.believes()).and_then(|id| id.to_str().ok());
        sent.filter(|id| is_plain(id)).map_or_else(Self::new, |id| Self(String::from(id)))
    }

    fn new() -> Self {
        Self(format!("{:016x}", u64::from_le_bytes(random())))
    }

    /// Returns the id of the request that this task answers.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs what answers this request.
    pub(super) async fn scope<T>(self, answer: impl Future<Output = T>) -> T {
        CURRENT.scope(self, answer).await
    }

    /// Returns the value of the header.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_plain(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
    (1..=MAX_LENGTH).contains(&id.len()) && id.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use taut_relay_server::ConnectionAdmission;

    use super::*;

    #[test]
    fn fault_e16_only_a_trusted_proxy_chooses_an_id_and_only_a_plain_one() {
        let admission = ConnectionAdmission::new(8, vec!["192.0.2.0/24".parse().unwrap()]);
        let id = |from: &str, sent: &[u8]| {
            let pass = admission.enter(from.parse::<IpAddr>().unwrap()).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(sent).unwrap());
            RequestId::of(&headers, &pass).to_string()
        };
        assert_eq!(id("192.0.2.1", b"4bf92f35-77b3"), "4bf92f35-77b3");
        for (from, sent) in [
            ("203.0.113.7", &b"4bf92f35-77b3"[..]),
            ("192.0.2.1", b""),
            ("192.0.2.1", b"a b"),
            ("192.0.2.1", b"\xff"),
            ("192.0.2.1", &[b'a'; MAX_LENGTH + 1]),
        ] {
            let made = id(from, sent);
            assert!(made.len() == 16 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(id("203.0.113.7", b"x"), id("203.0.113.7", b"x"));
    }
}
