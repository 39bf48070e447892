//! Questions of local users about the policy, which the coordinator answers.
//!
//! No request of a user waits inside the daemon. The first one sends the question; the user asks again until the answer is there.

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::Time;
use taut_control::Command;
use taut_netmap::{Connection, Decision, MAX_PEER_TEXT, MAX_PLACES};

use super::Daemon;
use crate::api::{ApiResponse, Failure, Reach, SCHEMA};
use crate::basics::clocks;

/// Questions that are kept, 8: several users may ask at the same time.
const KEPT: usize = 8;

/// Time for which an answer is good, 1 s: a policy that was changed is asked for again.
const FRESH: Duration = Duration::from_secs(1);

/// Time after which an unanswered question is sent again, 5 s.
const AGAIN: Duration = Duration::from_secs(5);

/// Least time between two questions to the coordinator, 100 ms: it reads 20 messages per second from a node, and other messages matter more.
const EVERY: Duration = Duration::from_millis(100);

/// The latest questions, oldest first.
#[derive(Default)]
pub(super) struct Questions {
    asked: VecDeque<Question>,
}

struct Question {
    connection: Connection,
    sent: Time,
    answer: Option<(Decision, Time)>,
}

/// What to do about a question.
#[derive(Debug, PartialEq)]
enum Step {
    /// The answer is known.
    Tell(Decision),
    /// The question is on its way, or has to wait for its turn.
    Wait,
    /// The question has to be sent.
    Send,
}

impl Questions {
    fn next(&mut self, connection: &Connection, now: Time) -> Step {
        let known = self.asked.iter().find(|asked| asked.connection == *connection);
        match known.map(|known| (&known.answer, known.sent)) {
            Some((Some((decision, at)), _)) if now.since(*at) < FRESH => return Step::Tell(decision.clone()),
            Some((None, sent)) if now.since(sent) < AGAIN => return Step::Wait,
            _ => {}
        }
        if self.asked.back().is_some_and(|last| now.since(last.sent) < EVERY) {
            return Step::Wait;
        }
        self.asked.retain(|asked| asked.connection != *connection);
        if self.asked.len() == KEPT {
            self.asked.pop_front();
        }
        self.asked.push_back(Question { connection: connection.clone(), sent: now, answer: None });
        Step::Send
    }

    /// Takes an answer. One that nobody waits for is dropped.
    pub(super) fn take(&mut self, mut decision: Decision, now: Time) {
        decision.rules.truncate(MAX_PLACES);
        for rule in &mut decision.rules {
            // A hostile coordinator's text could look like another line of the output.
            if !["acls", "grants"].contains(&&*rule.section) {
                rule.section = String::from("?");
            }
        }
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.connection == decision.connection) {
            asked.answer = Some((decision, now));
        }
    }
}

impl Daemon {
    /// Tells whether the policy allows a connection of this node, or that the answer is not known yet.
    pub(super) fn reach(&mut self, connection: Connection) -> ApiResponse {
        if connection.peer.len() > MAX_PEER_TEXT {
            return ApiResponse::Failed(Failure::new("the peer's name is too long", "`taut status` lists all peers"));
        }
        if !self.coordinator.connected {
            let message = "only the coordinator knows the policy of the network, and this node is not connected to it";
            return ApiResponse::Failed(Failure::new(
                message,
                "`taut status` shows why; try again once it is connected",
            ));
        }
        let step = self.questions.next(&connection, clocks().now);
        let (verdict, policy_version, rules) = match step {
            Step::Tell(decision) => (Some(decision.verdict), Some(decision.policy), decision.rules),
            Step::Wait => (None, None, Vec::new()),
            Step::Send => {
                self.tell(Command::Explain(connection.clone()));
                (None, None, Vec::new())
            }
        };
        ApiResponse::Reach(Box::new(Reach { schema: SCHEMA, connection, verdict, policy_version, rules }))
    }
}

#[cfg(test)]
mod tests {
    use taut_netmap::Verdict;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_duration(Duration::from_millis(milliseconds))
    }

    fn to(port: u16) -> Connection {
        Connection { peer: String::from("db"), protocol: 6, port }
    }

    fn denied(port: u16) -> Decision {
        Decision { connection: to(port), verdict: Verdict::Denied, policy: 3, rules: Vec::new() }
    }

    #[test]
    fn a_question_is_sent_once_and_its_answer_told_for_a_second() {
        let mut questions = Questions::default();
        assert_eq!(questions.next(&to(22), at(0)), Step::Send);
        assert_eq!(questions.next(&to(22), at(50)), Step::Wait);
        questions.take(denied(22), at(60));
        assert_eq!(questions.next(&to(22), at(70)), Step::Tell(denied(22)));
        assert_eq!(questions.next(&to(22), at(1_059)), Step::Tell(denied(22)));
        assert_eq!(questions.next(&to(22), at(1_060)), Step::Send, "the policy may have changed");
    }

    #[test]
    fn a_question_without_an_answer_is_sent_again() {
        let mut questions = Questions::default();
        assert_eq!(questions.next(&to(22), at(0)), Step::Send);
        assert_eq!(questions.next(&to(22), at(4_999)), Step::Wait);
        assert_eq!(questions.next(&to(22), at(5_000)), Step::Send);
    }

    #[test]
    fn many_questions_are_paced_and_the_oldest_forgotten() {
        let mut questions = Questions::default();
        for port in 0..20 {
            let now = u64::from(port) * 100;
            assert_eq!(questions.next(&to(port), at(now)), Step::Send);
            assert_eq!(questions.next(&to(port + 100), at(now + 99)), Step::Wait);
        }
        assert_eq!(questions.asked.len(), KEPT);
        // The answer to a forgotten question.
        questions.take(denied(0), at(2_000));
        assert!(questions.asked.iter().all(|asked| asked.answer.is_none()));
    }
}
