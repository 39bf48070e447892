//! Requests and answers: sequence numbers, acknowledgements, dumps.

use crate::abi;
use crate::error::NetlinkError;
use crate::message::{HEADER_LEN, NetlinkRequest};
use crate::namespace::within;
use crate::parse::{self, Malformed, Message};
use crate::socket::{BUFFER_LEN, Socket};
use std::io;
use std::os::fd::BorrowedFd;

/// Most repetitions of a dump that the kernel marked as inconsistent, because the configuration changed during it.
const DUMP_ATTEMPTS: usize = 8;

/// A connection to the kernel for links, addresses and routes of the network namespace it was opened in.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A message of the answer to the current request.
enum Step<'a> {
    /// An object.
    Object(Message<'a>),
    /// The end: 0 or a negative error number, and the kernel's explanation.
    End(i32, Option<String>),
}

impl Netlink {
    /// Opens a connection. Reading needs no privileges; changing needs `CAP_NET_ADMIN`.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = open_socket(libc::NETLINK_ROUTE)
            .map_err(|source| NetlinkError::Socket { operation: "open netlink", source })?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER_LEN] })
    }

    /// The same in another network namespace (man 4 netlink, man 7 network_namespaces); needs `CAP_SYS_ADMIN`.
    pub fn open_in(namespace: BorrowedFd<'_>) -> Result<Self, NetlinkError> {
        let socket = within(namespace, || open_socket(libc::NETLINK_ROUTE)).map_err(|source| NetlinkError::Socket {
            operation: "open netlink in another network namespace",
            source,
        })?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER_LEN] })
    }

    /// Has dumps obey the fields of their request, or not. A kernel that does not know this ignores the fields, and the caller's own filter does the
    /// whole work.
    pub(crate) fn set_strict(&self, strict: bool) {
        let _ = self.socket.set_int(libc::SOL_NETLINK, abi::NETLINK_GET_STRICT_CHK, strict.into());
    }

    /// Sends a change and waits for its acknowledgement. `object` names the object in errors.
    pub(crate) fn change(
        &mut self,
        operation: &'static str,
        object: impl FnOnce() -> String,
        request: NetlinkRequest,
    ) -> Result<(), NetlinkError> {
        self.exchange(operation, object, request, |_| Ok(())).map(|_| ())
    }

    /// Sends a query for many objects and collects what `take` makes of them; starts again if the kernel
    /// reports that they changed during the dump.
    pub(crate) fn dump<T>(
        &mut self,
        operation: &'static str,
        request: impl Fn() -> NetlinkRequest,
        take: impl Fn(Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            let mut found = Vec::new();
            let consistent = self.exchange(operation, String::new, request(), |message| {
                found.extend(take(message)?);
                Ok(())
            })?;
            if consistent {
                return Ok(found);
            }
        }
        Err(NetlinkError::Unsettled { operation })
    }

    /// Sends `request` and gives each object of the answer to `take` until its end. Returns true if no message was
    /// marked as inconsistent.
    pub(crate) fn exchange(
        &mut self,
        operation: &'static str,
        object: impl FnOnce() -> String,
        request: NetlinkRequest,
        mut take: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<bool, NetlinkError> {
        let failed = |source| NetlinkError::Socket { operation, source };
        let malformed = NetlinkError::malformed(operation);
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request.finish(self.sequence)).map_err(failed)?;
        let mut consistent = true;
        loop {
            let length = self.socket.receive(&mut self.buffer).map_err(failed)?;
            let datagram = self.buffer.get(..length).unwrap_or_default();
            match read_datagram(datagram, self.sequence, &mut consistent, &mut take).map_err(&malformed)? {
                None => {}
                Some((0, _)) => return Ok(consistent),
                Some((code, detail)) => {
                    let source = io::Error::from_raw_os_error(code.saturating_neg());
                    return Err(NetlinkError::Refused { operation, object: object(), source, detail });
                }
            }
        }
    }
}

/// Gives the objects of one datagram to `take`. The end of the answer to request `sequence`, if it is there, is
/// returned as 0 or a negative error number, and the kernel's own words.
pub(crate) fn read_datagram(
    datagram: &[u8],
    sequence: u32,
    consistent: &mut bool,
    take: &mut impl FnMut(Message<'_>) -> Result<(), Malformed>,
) -> Result<Option<(i32, Option<String>)>, Malformed> {
    for message in parse::messages(datagram) {
        let message = message?;
        // A leftover of a request that was given up.
        if message.sequence != sequence {
            continue;
        }
        *consistent &= message.flags & abi::NLM_F_DUMP_INTR == 0;
        match read_step(message)? {
            Step::Object(message) => take(message)?,
            Step::End(code, detail) => return Ok(Some((code, detail))),
        }
    }
    Ok(None)
}

/// Opens a socket of this netlink protocol for requests.
pub(crate) fn open_socket(protocol: libc::c_int) -> io::Result<Socket> {
    let socket = Socket::open(protocol, 0, false)?;
    socket.bound_waiting()?;
    // Explanations in errors (Linux 4.12), without our own request sent back (4.3); older kernels do without.
    let _ = socket.set_int(libc::SOL_NETLINK, abi::NETLINK_EXT_ACK, 1);
    let _ = socket.set_int(libc::SOL_NETLINK, abi::NETLINK_CAP_ACK, 1);
    Ok(socket)
}

fn read_step(message: Message<'_>) -> Result<Step<'_>, Malformed> {
    match message.kind {
        abi::NLMSG_ERROR => {
            let code = parse::u32_at(message.payload, 0)?.cast_signed();
            Ok(Step::End(code, explanation(message)))
        }
        // A dump that fails halfway says so in its last message; before Linux 2.6 there was nothing in it.
        abi::NLMSG_DONE => Ok(Step::End(parse::u32_at(message.payload, 0).map_or(0, u32::cast_signed), None)),
        abi::NLMSG_OVERRUN => Err(Malformed("sequence: messages were lost")),
        _ => Ok(Step::Object(message)),
    }
}

/// The kernel's words in an error: behind the number, the header of our request, and the rest of our request unless
/// left out.
fn explanation(message: Message<'_>) -> Option<String> {
    if message.flags & abi::NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let mut start = size_of::<u32>() + HEADER_LEN;
    if message.flags & abi::NLM_F_CAPPED == 0 {
        let length = usize::try_from(parse::u32_at(message.payload, 4).ok()?).ok()?;
        start = start.checked_add(length.checked_sub(HEADER_LEN)?)?.checked_next_multiple_of(4)?;
    }
    parse::attributes(message.payload.get(start..)?)
        .flatten()
        .find(|(kind, _)| *kind == abi::NLMSGERR_ATTR_MSG)
        .map(|(_, words)| parse::text(words))
}

#[cfg(test)]
mod tests;
