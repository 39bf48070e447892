//! The module that replaces `tls` in a program built without the feature `tls`: https URLs are refused, with an error that says why.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use crate::broken::Broken;
use crate::scheme::WITHOUT_TLS;

/// A stream with TLS, which no program with this module ever has.
pub(crate) struct Secured<S> {
    never: Infallible,
    socket: S,
}

/// Who may certify a server: nobody.
pub(crate) type Authorities = Infallible;

/// Refuses.
pub(crate) fn secure<S>(_: S, _: &str, _: Option<Authorities>) -> io::Result<Secured<S>> {
    Err(io::Error::new(ErrorKind::Unsupported, WITHOUT_TLS.join(": ")))
}

/// Refuses.
pub(crate) fn authorities(_: &[&Path]) -> Result<Authorities, Broken> {
    Err(Broken(WITHOUT_TLS.join(": ")))
}

/// Returns the error.
pub(crate) fn name_plain<S>(_: &Secured<S>, _: bool, error: io::Error) -> io::Error {
    error
}

/// Returns an error as text for the user.
pub(crate) fn explain(error: &io::Error) -> Broken {
    Broken(error.to_string())
}

impl<S> Secured<S> {
    pub(crate) fn get_ref(&self) -> &S {
        &self.socket
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.socket
    }
}

impl<S> Read for Secured<S> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.never {}
    }
}

impl<S> Write for Secured<S> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.never {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.never {}
    }
}
