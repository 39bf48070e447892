//! Questions that servers of this host are asked at the moment. A dnsmasq that takes its own servers from `/etc/resolv.conf` sends them back to the forwarder, and
//! each turn of that loop would hold a thread.

use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a header (RFC 1035 section 4.1.1); the question is behind it.
const HEADER: usize = 12;
/// Bytes of type and class.
const TYPE_AND_CLASS: usize = 4;
/// Most questions with the same name and type at once, 32: many programs may ask the same at their start, and a loop must not take all threads. The next one is
/// asked elsewhere.
const MOST_ALIKE: usize = 32;

/// The questions.
#[derive(Default)]
pub(super) struct Asked(Arc<Mutex<Vec<Vec<u8>>>>);

impl Asked {
    /// Notes a question until what is returned is dropped; `None` if it has come back too often.
    pub(super) fn begin(&self, message: &[u8]) -> Option<Turn> {
        let question = question(message)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().filter(|other| **other == question).count() >= MOST_ALIKE {
            return None;
        }
        all.push(question.clone());
        Some(Turn { all: Arc::clone(&self.0), question })
    }
}

/// A question that waits for its answer.
pub(super) struct Turn {
    all: Arc<Mutex<Vec<Vec<u8>>>>,
    question: Vec<u8>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|other| *other == self.question) {
            all.swap_remove(at);
        }
    }
}

/// Returns name, type and class without regard to case: what a server that passes a question on does not change.
fn question(message: &[u8]) -> Option<Vec<u8>> {
    let rest = message.get(HEADER..)?;
    let mut end = 0;
    while let Some(length) = rest.get(end).copied().filter(|length| *length > 0) {
        end += usize::from(length) + 1;
    }
    rest.get(..=end + TYPE_AND_CLASS).map(<[u8]>::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_comes_back_again_and_again_is_not_sent_there_any_more() {
        let message =
            |front: u8, name: u8| [vec![front; HEADER], vec![1, name, 0, 0, 1, 0, 1], vec![front; 11]].concat();
        let asked = Asked::default();
        let turns: Vec<Turn> = (0..40)
            .filter_map(|number| asked.begin(&message(number, if number % 2 == 0 { b'a' } else { b'A' })))
            .collect();
        assert_eq!(turns.len(), MOST_ALIKE, "also with another identifier, case and EDNS");
        assert!(asked.begin(&message(0, b'b')).is_some(), "another name");
        drop(turns);
        assert!(asked.begin(&message(0, b'a')).is_some());
        assert!(asked.begin(&[0; 14]).is_none() && asked.begin(&[]).is_none());
    }
}
