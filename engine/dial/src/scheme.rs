//! Errors about the scheme of a URL: https in a build without TLS, and http at a port where the server speaks TLS.

/// First byte of an alert of TLS (RFC 8446, section 5.1): the answer of a server of TLS to a request in plain HTTP.
const ALERT: u8 = 21;

/// Words with which servers answer a request in plain HTTP at a port for https, in lower case: Taut's, nginx and Go, Apache.
const TLS_WANTED: [&str; 4] = ["speaks https", "https port", "https server", "ssl-enabled"];

/// Error for the user if an http URL leads to a port at which the server speaks TLS.
pub(crate) const SPEAKS_TLS: &str = if cfg!(feature = "tls") {
    "the server speaks TLS at this port: write https:// in the URL instead of http://, or give the port at which it speaks plain HTTP"
} else {
    "the server speaks TLS at this port, and this taut was built without it: give the port at which it speaks plain HTTP (docs/operate.md, section \"Nodes without TLS\")"
};

/// Errors for the user: why a build without TLS refuses an https URL, and what to do. An http URL is no less safe for a channel: it is sealed by itself, to the pinned key (protocol.md 8).
pub const WITHOUT_TLS: [&str; 2] = [
    "this taut was built without TLS, as for small routers, and reaches no https URL",
    "take a token with an http:// URL: the coordinator must be reachable by http, too (docs/operate.md, section \"Nodes without TLS\")",
];

/// Returns true if this answer to a request in plain HTTP is that of a server of TLS.
pub(crate) fn speaks_tls(answer: &[u8]) -> bool {
    let says = || {
        let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
        text.split(' ').nth(1) == Some("400") && TLS_WANTED.iter().any(|words| text.contains(words))
    };
    answer.first() == Some(&ALERT) || says()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_tls_is_known_by_its_answer() {
        let answers: [&[u8]; 4] = [
            &[21, 3, 1, 0, 2, 2, 10],
            b"HTTP/1.1 400 Bad Request\r\n\r\n<h1>The plain HTTP request was sent to HTTPS port</h1>",
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            b"HTTP/1.1 400 Bad Request\r\n\r\nthis port speaks https: write https:// in the URL\n",
        ];
        assert!(answers.iter().all(|answer| speaks_tls(answer)));
        let others: [&[u8]; 4] = [
            b"",
            b"SSH-2.0-OpenSSH",
            b"HTTP/1.1 400 Bad Request\r\n\r\nsee https://example.org",
            b"HTTP/1.1 200 OK\r\n\r\nthe https port",
        ];
        assert!(!others.iter().any(|answer| speaks_tls(answer)));
    }
}
