//! Lines from the daemon and to it.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use taut_base::Time;
use taut_proxy::{MAX_LINE, Report, Setup};

/// Shortest time between two reports, 500 ms: people read them.
const APART: Duration = Duration::from_millis(500);

/// The stream to the daemon.
pub(crate) struct Control {
    stream: UnixStream,
    buffer: Vec<u8>,
    told: Option<Report>,
    due: Time,
}

impl Control {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: Vec::new(), told: None, due: Time::ZERO }
    }

    /// Waits for the first setup.
    ///
    /// # Errors
    /// `UnexpectedEof` if the daemon ended; `InvalidData` if the line is not one.
    pub(crate) fn first(&mut self) -> io::Result<Setup> {
        loop {
            if let Some(setup) = self.line()? {
                self.stream.set_nonblocking(true)?;
                return Ok(setup);
            }
            self.read()?;
        }
    }

    /// Reads the newest setup, if there is one.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub(crate) fn newest(&mut self) -> io::Result<Option<Setup>> {
        match self.read() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            answer => answer?,
        }
        let mut newest = None;
        while let Some(setup) = self.line()? {
            newest = Some(setup);
        }
        Ok(newest)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4_096];
        match self.stream.read(&mut chunk)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count if self.buffer.len() + count > MAX_LINE => Err(ErrorKind::InvalidData.into()),
            count => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }

    fn line(&mut self) -> io::Result<Option<Setup>> {
        let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let setup = taut_json::from_slice(&self.buffer[..end]).map_err(io::Error::other)?;
        self.buffer.drain(..=end);
        Ok(Some(setup))
    }

    /// Reports the state, if it changed and the last report was a while ago.
    pub(crate) fn report(&mut self, report: &Report, now: Time) {
        if now < self.due || self.told.as_ref() == Some(report) {
            return;
        }
        self.due = now + APART;
        let Ok(mut line) = taut_json::to_vec(report) else { return };
        line.push(b'\n');
        // Lines are far shorter than the socket's buffer. A daemon that does not read gets the next one.
        if self.stream.write(&line).is_ok_and(|count| count == line.len()) {
            self.told = Some(report.clone());
        }
    }

    /// Returns the time of the next report, if `report` has to be told.
    pub(crate) fn poll_timeout(&self, report: &Report) -> Option<Time> {
        (self.told.as_ref() != Some(report)).then_some(self.due)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
