//! Why a connection failed, in words for the user.

use std::error::Error;
use std::fmt;
use std::io;

use taut_base::is_printable;

use crate::websocket::WebSocketError;

/// The reason why a connection or a channel failed, as text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Broken {}

/// First byte of an alert of TLS (RFC 8446, section 5.1): the answer of a server of TLS to a request in plain HTTP.
const ALERT: u8 = 21;

/// Words with which servers answer a request in plain HTTP at a port for https, in lower case: Taut's, nginx and Go, Apache.
const TLS_WANTED: [&str; 4] = ["speaks https", "https port", "https server", "ssl-enabled"];

/// What to do about a server of TLS behind an http URL.
pub(crate) const SPEAKS_TLS: &str = "the server speaks TLS at this port: write https:// in the URL instead of http://, or give the port at which it speaks plain HTTP";

/// Returns true if this answer to a request in plain HTTP is that of a server of TLS.
pub(crate) fn speaks_tls(answer: &[u8]) -> bool {
    let says = || {
        let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
        text.split(' ').nth(1) == Some("400") && TLS_WANTED.iter().any(|words| text.contains(words))
    };
    answer.first() == Some(&ALERT) || says()
}

/// The server that a WebSocket leads to, for the text of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A coordinator, for its control channel.
    Coordinator,
    /// A relay.
    Relay,
}

impl Server {
    const fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "the coordinator",
            Self::Relay => "the relay",
        }
    }
}

impl WebSocketError {
    /// Returns the error as text for the user.
    pub fn explain(self, server: Server) -> Broken {
        use io::ErrorKind as Kind;
        let closed = || format!("{} closed the connection", server.name());
        Broken(match self {
            Self::Status(status) => match server {
                Server::Coordinator => format!(
                    "it answered with HTTP status {status} instead of a control channel; is this the coordinator's URL?"
                ),
                Server::Relay => {
                    format!("it answered with HTTP status {status} instead of a WebSocket; is this a relay's URL?")
                }
            },
            Self::Io(error) => match error.kind() {
                Kind::WouldBlock | Kind::TimedOut => return no_answer(),
                Kind::ConnectionReset | Kind::BrokenPipe | Kind::UnexpectedEof => closed(),
                _ => error.to_string(),
            },
            Self::Closed => closed(),
            Self::SpeaksTls => match server {
                Server::Coordinator => String::from(SPEAKS_TLS),
                Server::Relay => String::from("the relay speaks TLS at this port, and its URL is of plain HTTP"),
            },
            Self::NoAnswer => format!("{} before it answered", closed()),
            Self::Opening(why) => not_websocket(why),
            Self::Frame(bad) => not_websocket(bad),
        })
    }
}

fn not_websocket(why: impl fmt::Display) -> String {
    format!("the server at this URL does not speak WebSocket as expected: {why}")
}

/// Returns the error of a server that does not answer.
pub(crate) fn no_answer() -> Broken {
    Broken(String::from("no answer in time"))
}

/// Returns a text from the network for a terminal: only its printable characters, and at most 200 of them.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|character| is_printable(*character)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinators_words_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a[2Jb");
    }

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
