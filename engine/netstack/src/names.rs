//! Questions for names of the overlay, to the node's own name server, as every program of a host with a TUN device asks it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use taut_base::Time;
use taut_dns::{PORT, addresses, question};
use taut_proxy::Refusal;

use crate::stack::{Stack, endpoint};

/// Time until a question is asked again, 2 s: the node answers at once, unless another server has to be asked for the name.
const AGAIN: Duration = Duration::from_secs(2);
/// Times that a question is asked, 3.
const MOST_TRIES: u32 = 3;
/// Longest answer, 1,232 bytes: what the node sends over UDP.
const MAX_ANSWER: usize = 4_096;

/// The name of a question that is open.
pub(crate) type QuestionId = u16;

/// The open questions. There are at most as many as connections.
#[derive(Default)]
pub(crate) struct Names {
    socket: Option<SocketHandle>,
    open: BTreeMap<QuestionId, Question>,
}

struct Question {
    name: String,
    message: Vec<u8>,
    /// Whether it is for IPv4 addresses; those of IPv6 are asked for if there are none.
    ipv4: bool,
    tries: u32,
    due: Time,
    result: Option<Result<Vec<IpAddr>, Refusal>>,
}

impl Names {
    /// Begins to look for the addresses of a name; a bare one is a node of `zone`.
    pub(crate) fn ask(
        &mut self,
        stack: &mut Stack,
        name: &str,
        zone: &str,
        servers: &[IpAddr],
        now: Time,
    ) -> Result<QuestionId, Refusal> {
        let name = if name.contains('.') { String::from(name) } else { format!("{name}.{zone}") };
        if self.socket.is_none() {
            self.socket = stack.open_names();
        }
        let id = loop {
            let id = stack.random() as u16;
            if !self.open.contains_key(&id) {
                break id;
            }
        };
        let message = question(&name, true, id).ok_or(Refusal::UnknownName)?;
        let mut asked = Question { name, message, ipv4: true, tries: 0, due: now, result: None };
        asked.send(self.socket, stack, servers, now);
        self.open.insert(id, asked);
        Ok(id)
    }

    /// Takes the result of a question, if there is one.
    pub(crate) fn take(&mut self, id: QuestionId) -> Option<Result<Vec<IpAddr>, Refusal>> {
        self.open.get(&id)?.result.as_ref()?;
        self.open.remove(&id)?.result
    }

    /// Forgets a question.
    pub(crate) fn forget(&mut self, id: QuestionId) {
        self.open.remove(&id);
    }

    /// Reads answers, and asks again what is due. Returns true if there is a result.
    pub(crate) fn turn(&mut self, stack: &mut Stack, servers: &[IpAddr], now: Time) -> bool {
        let Some(socket) = self.socket else { return false };
        let mut any = false;
        let mut answer = [0; MAX_ANSWER];
        while let Ok((length, about)) = stack.udp(socket).recv_slice(&mut answer) {
            // A peer that guesses identifier and port cannot answer: packets of peers do not come from the name server's address.
            let from = IpAddr::from(about.endpoint.addr);
            let id = answer[..length].first_chunk().map(|id| u16::from_be_bytes(*id));
            let Some(asked) = id.and_then(|id| self.open.get_mut(&id)).filter(|_| servers.contains(&from)) else {
                continue;
            };
            any |= asked.hear(&answer[..length], self.socket, stack, servers, now);
        }
        for asked in self.open.values_mut().filter(|asked| asked.result.is_none() && asked.due <= now) {
            match asked.tries < MOST_TRIES {
                true => asked.send(self.socket, stack, servers, now),
                false => (asked.result, any) = (Some(Err(Refusal::NoAnswer)), true),
            }
        }
        any
    }

    /// Returns the time at which [`Self::turn`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.open.values().filter(|asked| asked.result.is_none()).map(|asked| asked.due).min()
    }
}

impl Question {
    fn send(&mut self, socket: Option<SocketHandle>, stack: &mut Stack, servers: &[IpAddr], now: Time) {
        (self.tries, self.due) = (self.tries + 1, now + AGAIN);
        let own: Vec<bool> = stack.addresses().iter().map(IpAddr::is_ipv4).collect();
        let server = servers.iter().find(|server| own.contains(&server.is_ipv4()));
        if let (Some(socket), Some(server)) = (socket, server) {
            // A question that finds no room is asked again.
            let _ = stack.udp(socket).send_slice(&self.message, endpoint(SocketAddr::new(*server, PORT)));
        }
    }

    /// Takes an answer. Returns true if it is the last one.
    fn hear(
        &mut self,
        answer: &[u8],
        socket: Option<SocketHandle>,
        stack: &mut Stack,
        servers: &[IpAddr],
        now: Time,
    ) -> bool {
        if self.result.is_some() || !taut_dns::is_answer(&self.message, answer) {
            return false;
        }
        let found = addresses(&self.message, answer);
        let id = self.message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        match question(&self.name, false, id).filter(|_| found.is_empty() && self.ipv4) {
            Some(other) => {
                (self.message, self.ipv4, self.tries) = (other, false, 0);
                self.send(socket, stack, servers, now);
                false
            }
            None => {
                self.result = Some(if found.is_empty() { Err(Refusal::UnknownName) } else { Ok(found) });
                true
            }
        }
    }
}
