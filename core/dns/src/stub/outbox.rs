//! The two queues of the stub that the lane empties: replies, which it writes to the TUN, and questions for other servers, which it passes to the agent.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::Flow;
use crate::answer::Transport;

/// Replies that wait, 64: a lane reads as many packets per turn, and writes all replies at the turn's end.
const MAX_WAITING: usize = 64;
/// Questions for other servers that wait for the agent, 32: a quarter of those that the agent has servers answer at once.
const MAX_QUESTIONS: usize = 32;

/// The program that asks, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub(super) flow: Flow,
    pub(super) transport: Transport,
}

/// A question that other servers answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The program that asks.
    pub client: Client,
    /// The message, as the program wrote it.
    pub message: Vec<u8>,
    /// The servers, first choice first. Empty for a name of the internet, which the exit node is asked for ([`crate::Names::with_all_others`]).
    pub servers: Arc<[IpAddr]>,
}

impl Question {
    /// Returns true if it came over TCP, so that its answer may be longer than a datagram.
    pub fn is_over_tcp(&self) -> bool {
        self.client.transport == Transport::Tcp
    }
}

/// Bounded queues of packets and questions.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    replies: VecDeque<Box<[u8]>>,
    questions: VecDeque<Question>,
}

impl Outbox {
    /// Returns true if one more packet fits.
    pub(super) fn has_room(&self) -> bool {
        self.replies.len() < MAX_WAITING
    }

    /// Appends a packet. Without room it is lost: a segment of TCP is sent again, and a client over UDP asks again.
    pub(super) fn push(&mut self, packet: Option<Box<[u8]>>) {
        if self.has_room() {
            self.replies.extend(packet);
        }
    }

    /// Returns the next packet.
    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        self.replies.pop_front()
    }

    /// Appends a question. Returns false without room: a client over UDP asks again, and one over TCP waits.
    pub(super) fn ask(&mut self, question: Question) -> bool {
        let has_room = self.questions.len() < MAX_QUESTIONS;
        if has_room {
            self.questions.push_back(question);
        }
        has_room
    }

    /// Returns the next question.
    pub(super) fn next_question(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }
}
