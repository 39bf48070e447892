//! The response to the latest initiation of a peer, kept for copies of that initiation.

use std::time::Duration;

use taut_base::Time;

use crate::contract::HandshakeMessage;

/// Time within which an initiation and its response may be sent again, 2 s (protocol.md 2.1).
pub(crate) const REPEAT: Duration = Duration::from_secs(2);

/// Maximum number of responses to one initiation, the first one included: four (protocol.md 2.1).
const RESPONSES: u8 = 4;

/// A response that may be sent again. A copy of the initiation that crosses the response on a long path, or that follows a lost response, must not
/// make a second session: the peer uses the first one as soon as its response arrives, and a second session would have replaced it.
pub(crate) struct SentResponse {
    /// Time at which the response was first sent.
    pub(crate) at: Time,
    mac1: [u8; 16],
    response: HandshakeMessage,
    sent: u8,
}

impl SentResponse {
    /// Creates the response to the initiation with this mac1. It counts as sent once.
    pub(crate) fn new(mac1: [u8; 16], response: HandshakeMessage, at: Time) -> Self {
        Self { at, mac1, response, sent: 1 }
    }

    /// Returns the response, which a cookie reply may refer to.
    pub(crate) fn response(&self) -> &HandshakeMessage {
        &self.response
    }

    /// Returns the response for a copy of the same initiation, within [`REPEAT`] and up to [`RESPONSES`] times in all.
    pub(crate) fn again(&mut self, mac1: &[u8; 16], now: Time) -> Option<HandshakeMessage> {
        if self.mac1 != *mac1 || self.sent >= RESPONSES || now >= self.at + REPEAT {
            return None;
        }
        self.sent += 1;
        Some(self.response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_answered_four_times_within_two_seconds() {
        let response = HandshakeMessage::new(&[2; 92]).unwrap();
        let answer = || SentResponse::new([1; 16], response, Time(5));
        let mut repeated = answer();
        let again: Vec<_> = (0..9).map(|_| repeated.again(&[1; 16], Time(6))).collect();
        assert_eq!(again.iter().flatten().count(), 3);
        assert_eq!(answer().again(&[3; 16], Time(6)), None, "a copy of another initiation");
        assert_eq!(answer().again(&[1; 16], Time(5) + REPEAT), None, "too late");
    }
}
