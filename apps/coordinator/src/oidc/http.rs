//! Requests to the provider, to checked addresses only (fault E15).

use std::fmt;
use std::time::Duration;

use openidconnect::{HttpRequest, HttpResponse};
use ureq::Agent;
use ureq::http::Method;

use crate::outgoing::{agent, is_allowed};

/// Timeout of one request, 5 s: a sign-in makes up to four, and a request of a browser may take 30 s.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest answer, 1 MiB. Keys and claims have a few KiB.
const LARGEST: u64 = 1 << 20;

/// A client for one provider.
pub(super) struct Http {
    agent: Agent,
    /// True if the issuer itself is an http URL.
    is_plain: bool,
}

impl Http {
    /// `is_plain` allows http. Returns an error if the system's certificates cannot be read.
    pub(super) fn new(is_plain: bool, allow_private: bool) -> Result<Self, String> {
        let rule = move |host: &str, address: std::net::SocketAddr| match is_allowed(address.ip(), allow_private) {
            true => Ok(()),
            false => Err(format!("{host} is at {}, which is not a public address", address.ip())),
        };
        Ok(Self { agent: agent(TIMEOUT, !is_plain, Box::new(rule))?, is_plain })
    }

    /// Returns true if a URL that the provider names may be used: https, or http if the issuer is http.
    pub(super) fn accepts(&self, scheme: &str) -> bool {
        scheme == "https" || self.is_plain && scheme == "http"
    }

    /// Sends a request of the crate `openidconnect`.
    pub(super) fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !request.uri().scheme_str().is_some_and(|scheme| self.accepts(scheme)) {
            return Err(HttpError(String::from("the provider names a URL that is not https")));
        }
        let answer = match *request.method() {
            Method::GET => self.agent.run(request.map(|_| ())),
            _ => self.agent.run(request),
        };
        let (head, body) = answer.map_err(|error| HttpError::new(&error))?.into_parts();
        let body = body.into_with_config().limit(LARGEST).read_to_vec().map_err(|error| HttpError::new(&error))?;
        Ok(HttpResponse::from_parts(head, body))
    }
}

/// The reason for which a request has no answer. It contains no secret.
#[derive(Debug)]
pub(super) struct HttpError(String);

impl HttpError {
    fn new(error: &ureq::Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HttpError {}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns why a request is not made; an empty text if it fails for another reason than its address.
    fn refusal(url: &str, allow_private: bool) -> String {
        let request = ureq::http::Request::get(url).body(Vec::new()).unwrap();
        let error = Http::new(true, allow_private).unwrap().send(request).err().unwrap().to_string();
        if error.contains("not a public address") || error.contains("not https") { error } else { String::new() }
    }

    #[test]
    fn fault_e15_nothing_is_sent_to_an_address_that_is_not_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "127.1"] {
            assert_ne!(refusal(&format!("http://{host}:{port}/"), false), "", "{host}");
        }
        assert!(listener.accept().is_err(), "nobody connected");
        for url in [
            "http://169.254.169.254/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "file://localhost/etc/passwd",
            "ftp://127.0.0.1/",
        ] {
            assert_ne!(refusal(url, true), "", "{url} with the flag");
        }
        let plain = ureq::http::Request::get("http://1.1.1.1/").body(Vec::new()).unwrap();
        let https = Http { is_plain: false, ..Http::new(true, true).unwrap() };
        assert!(
            https.send(plain).err().unwrap().to_string().contains("not https"),
            "an https issuer names an http URL"
        );
    }
}
