//! `load`: QUIC as an application uses it, by quinn, to measure what lies between two hosts. Not a part of Taut.
//!
//! `load serve` answers until its input closes; `load bulk` pours data into it for a while; `load first-byte` opens connections one after
//! the other and asks each for one byte. Every result is one line of JSON on standard output with the key `schema`.
//!
//! What it promises:
//! - throughput is what the *receiver* took in order within the counted time: what was in flight before and after is in no figure;
//! - every connection of `first-byte` is a full handshake: no resumption, no early data, a certificate that is checked;
//! - quinn's own defaults, segmentation offload among them; only the windows are larger, and the congestion control is named.
//!
//! What it refuses: to be a server for anything else. It knows two requests, and its certificate is for the run.

mod arguments;
mod client;
mod failure;
mod request;
mod server;
#[cfg(test)]
mod tests;
mod tls;

use std::process::ExitCode;

use arguments::{Command, parse};

fn main() -> ExitCode {
    let Err(why) = run() else { return ExitCode::SUCCESS };
    eprintln!("load: {why}");
    ExitCode::FAILURE
}

/// Does what the command line says; the error says what did not work.
fn run() -> Result<(), Box<dyn std::error::Error>> {
    let command = parse(std::env::args().skip(1))?;
    // One thread, so that the processor time of a run does not depend on how many cores the machine has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        Command::Serve(listen) => runtime.block_on(server::serve(&listen))?,
        Command::Bulk(connect, bulk) => println!("{}", runtime.block_on(client::bulk(&connect, bulk))?),
        Command::FirstByte(connect, tries) => println!("{}", runtime.block_on(client::first_byte(&connect, tries))?),
    }
    Ok(())
}
