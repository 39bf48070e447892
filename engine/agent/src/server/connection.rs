//! One connection of a local user: reads requests, one per line, and writes responses. It never blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use zeroize::Zeroizing;

use crate::api::{ApiRequest, ApiResponse, Failure, MAX_REQUEST};

/// Number of bytes that are read at a time.
const CHUNK: usize = 4096;

/// A connection of a local user.
pub(crate) struct UserConnection {
    stream: UnixStream,
    may_change: bool,
    /// Received bytes. They may contain a join token, so the buffer is wiped, and never reallocated.
    input: Zeroizing<Vec<u8>>,
    output: Vec<u8>,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A complete request was read; [`UserConnection::answer`] is next.
    Asked,
    /// A request.
    Idle,
    /// The rest of a request.
    Part,
    /// The client, which has to read the response.
    Reader,
    /// Nothing: the connection has ended.
    Ended,
}

impl UserConnection {
    pub(crate) fn new(stream: UnixStream, may_change: bool) -> Self {
        Self { stream, may_change, input: Zeroizing::new(Vec::with_capacity(MAX_REQUEST + CHUNK)), output: Vec::new() }
    }

    /// Returns the number of stored bytes, of requests and of the response.
    pub(crate) fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Writes the pending response, and reads up to the next complete request. While a client does not read its response, nothing is read from it: otherwise a client
    /// that sends requests without reading would fill the daemon's memory (law 11).
    pub(crate) fn advance(&mut self) -> Progress {
        let mut chunk = Zeroizing::new([0; CHUNK]);
        loop {
            if !self.write() {
                return Progress::Ended;
            }
            if !self.output.is_empty() {
                return Progress::Reader;
            }
            if self.input.contains(&b'\n') {
                return Progress::Asked;
            }
            if self.input.len() > MAX_REQUEST {
                return Progress::Ended;
            }
            match self.stream.read(&mut *chunk) {
                Ok(0) => return Progress::Ended,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if self.input.is_empty() { Progress::Idle } else { Progress::Part };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Progress::Ended,
            }
        }
    }

    /// Answers the first complete request; `answer` carries it out, or returns `None` if the daemon is ending: its clients wait for the end of the connection.
    pub(crate) fn answer(&mut self, answer: impl FnOnce(ApiRequest) -> Option<ApiResponse>) {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else { return };
        let line: Zeroizing<Vec<u8>> = Zeroizing::new(self.input.drain(..=end).collect());
        if let Some(response) = self.respond(&line, answer) {
            self.queue(&response);
        }
    }

    /// Reports why the connection is closed before any request. Bytes that the socket does not accept at once are lost.
    pub(super) fn refuse(&mut self, failure: Failure) {
        self.queue(&ApiResponse::Failed(failure));
        self.write();
    }

    fn queue(&mut self, response: &ApiResponse) {
        // Serialising fails only for maps with keys other than strings, which the API does not have.
        self.output = taut_json::to_vec(response).unwrap_or_default();
        self.output.push(b'\n');
    }

    pub(super) fn respond(
        &self,
        line: &[u8],
        answer: impl FnOnce(ApiRequest) -> Option<ApiResponse>,
    ) -> Option<ApiResponse> {
        let refuse = |message, hint| {
            Some(ApiResponse::Failed(Failure { message: String::from(message), hint: String::from(hint) }))
        };
        match ApiRequest::read(line) {
            Ok(request) if request.changes() && !self.may_change => {
                refuse("only root and the daemon's own user may change settings", "run the command with sudo")
            }
            Ok(request) if request.is_private() && !self.may_change => {
                refuse("only root and the daemon's own user may read the event log", "try again with sudo")
            }
            Ok(request) => answer(request),
            Err(error) => refuse(
                &format!("the daemon does not understand this request: {error}"),
                "use a `taut` of the daemon's version; `taut version` shows both",
            ),
        }
    }

    /// Writes the pending response. Returns false if the connection has ended.
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

impl AsFd for UserConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
