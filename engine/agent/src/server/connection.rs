//! One connection of a local user: bytes in, whole lines answered, bytes out. It never blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use zeroize::Zeroizing;

use crate::api::{Failure, MAX_REQUEST, Request, Response};

/// Bytes that are read at a time.
const CHUNK: usize = 4096;

/// A connection of a local user.
pub(crate) struct Connection {
    stream: UnixStream,
    may_change: bool,
    /// May hold a join token: wiped, and large enough from the start, so that it leaves no copy behind.
    input: Zeroizing<Vec<u8>>,
    output: Vec<u8>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A whole request was read; [`Connection::answer`] is next.
    Asked,
    /// For a request.
    Idle,
    /// For the rest of a request.
    Part,
    /// For its user to read the answer.
    Reader,
    /// For nothing: it is at its end.
    Ended,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, may_change: bool) -> Self {
        Self { stream, may_change, input: Zeroizing::new(Vec::with_capacity(MAX_REQUEST + CHUNK)), output: Vec::new() }
    }

    /// Returns the bytes that are kept: of requests and of the answer.
    pub(crate) fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Writes what waits, and reads up to the next whole request. Nothing is read from a client that does not take its answer: otherwise, many requests
    /// and no reading would fill the daemon's memory (law 11).
    pub(crate) fn advance(&mut self) -> Step {
        let mut chunk = Zeroizing::new([0; CHUNK]);
        loop {
            if !self.write() {
                return Step::Ended;
            }
            if !self.output.is_empty() {
                return Step::Reader;
            }
            if self.input.contains(&b'\n') {
                return Step::Asked;
            }
            if self.input.len() > MAX_REQUEST {
                return Step::Ended;
            }
            match self.stream.read(&mut *chunk) {
                Ok(0) => return Step::Ended,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if self.input.is_empty() { Step::Idle } else { Step::Part };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Step::Ended,
            }
        }
    }

    /// Answers the first request that was read; `answer` carries it out.
    pub(crate) fn answer(&mut self, answer: impl FnOnce(Request) -> Response) {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else { return };
        let line: Zeroizing<Vec<u8>> = Zeroizing::new(self.input.drain(..=end).collect());
        self.queue(&self.respond(&line, answer));
    }

    /// Says why the connection is closed before any request. What the socket does not take at once is lost.
    pub(super) fn refuse(&mut self, failure: Failure) {
        self.queue(&Response::Failed(failure));
        self.write();
    }

    fn queue(&mut self, response: &Response) {
        // Serialising fails only for maps whose keys are no strings, which the API does not have.
        self.output = serde_json::to_vec(response).unwrap_or_default();
        self.output.push(b'\n');
    }

    pub(super) fn respond(&self, line: &[u8], answer: impl FnOnce(Request) -> Response) -> Response {
        match serde_json::from_slice::<Request>(line) {
            Ok(request) if request.changes() && !self.may_change => Response::Failed(Failure {
                message: String::from("only root and the daemon's own user may change anything"),
                hint: String::from("try again with sudo"),
            }),
            Ok(request) if request.is_private() && !self.may_change => Response::Failed(Failure {
                message: String::from("only root and the daemon's own user may read the event log"),
                hint: String::from("try again with sudo"),
            }),
            Ok(request) => answer(request),
            Err(error) => Response::Failed(Failure {
                message: format!("the daemon does not understand this request: {error}"),
                hint: String::from("use a `taut` of the daemon's version; `taut version` shows both"),
            }),
        }
    }

    /// Writes what waits; false when the connection is at its end.
    fn write(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
