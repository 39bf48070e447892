//! `taut metrics`: prints the daemon's metrics in the Prometheus text format.

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let mut socket = default_socket();
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    output::print(&Client::open(&socket)?.metrics()?)
}
