//! Why a connection failed, in words for the user.

use std::error::Error;
use std::fmt;
use std::io;

use taut_base::is_printable;

use crate::scheme::SPEAKS_TLS;
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
}
