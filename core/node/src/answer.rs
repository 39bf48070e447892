//! The answer to the last initiation of a peer, kept for the copies of that initiation.

use std::time::Duration;

use taut_base::Time;

use crate::contract::HandshakeMessage;

/// How long an initiation and its answer may be repeated (protocol.md 2.1).
pub(crate) const REPEAT: Duration = Duration::from_secs(2);

/// Responses to one initiation at most, the first one included (protocol.md 2.1).
const RESPONSES: u8 = 4;

/// A response that may be sent again. A try that crosses the response on a long way, or follows a lost one, must not make a second session: the
/// peer uses the first as soon as it can, and it would be gone by then.
pub(crate) struct Answer {
    /// When it was given.
    pub(crate) at: Time,
    mac1: [u8; 16],
    response: HandshakeMessage,
    sent: u8,
}

impl Answer {
    /// The answer to the initiation with this first MAC, sent once.
    pub(crate) fn new(mac1: [u8; 16], response: HandshakeMessage, at: Time) -> Self {
        Self { at, mac1, response, sent: 1 }
    }

    /// The response, for a cookie that answers it.
    pub(crate) fn response(&self) -> &HandshakeMessage {
        &self.response
    }

    /// The response once more, if this is a copy of the same initiation and not too many or too late.
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
        let answer = || Answer::new([1; 16], response, Time(5));
        let mut repeated = answer();
        let again: Vec<_> = (0..9).map(|_| repeated.again(&[1; 16], Time(6))).collect();
        assert_eq!(again.iter().flatten().count(), 3);
        assert_eq!(answer().again(&[3; 16], Time(6)), None, "another initiation");
        assert_eq!(answer().again(&[1; 16], Time(5) + REPEAT), None, "too late");
    }
}
