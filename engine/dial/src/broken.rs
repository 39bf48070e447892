//! Why a connection failed, in words for the user.

use std::error::Error;
use std::fmt;
use std::io;

use taut_base::is_printable;

/// The reason why a connection or a channel failed, as text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Broken {}

/// Returns the error of a channel's WebSocket as text for the user.
pub(crate) fn explain(error: tungstenite::Error) -> Broken {
    use io::ErrorKind as Kind;
    use tungstenite::Error as Ws;
    use tungstenite::error::ProtocolError;
    Broken(match error {
        Ws::Http(response) => format!(
            "it answered with HTTP status {} instead of a control channel; is this the coordinator's URL?",
            response.status().as_u16()
        ),
        Ws::Io(error) if matches!(error.kind(), Kind::WouldBlock | Kind::TimedOut) => String::from("no answer in time"),
        Ws::Io(error) if matches!(error.kind(), Kind::ConnectionReset | Kind::BrokenPipe | Kind::UnexpectedEof) => {
            String::from("the coordinator closed the connection")
        }
        Ws::Io(error) => error.to_string(),
        Ws::ConnectionClosed | Ws::AlreadyClosed | Ws::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            String::from("the coordinator closed the connection")
        }
        Ws::Protocol(ProtocolError::HandshakeIncomplete) => {
            String::from("the coordinator closed the connection before it answered")
        }
        other => format!("the server at this URL does not speak WebSocket as expected: {other}"),
    })
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
