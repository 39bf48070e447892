//! `load`: QUIC traffic as an application sends it, through quinn, to measure the network between two hosts. Not a part of Taut.
//!
//! `load serve` answers until its standard input closes; `load bulk` sends data to the server for a while; `load first-byte` opens connections one after
//! the other and requests one byte on each. Every result is one line of JSON on standard output with the key `schema`.
//!
//! Guarantees:
//! - throughput is what the *receiver* took in order within the counted time: data in flight before or after it is not counted;
//! - every connection of `first-byte` is a full handshake: no resumption, no early data, and a checked certificate;
//! - quinn's own defaults apply, including segmentation offload; only the windows are larger, and the congestion control is chosen by a flag.
//!
//! It serves no other purpose: the server knows two requests, and its certificate is valid for one run.

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

/// Runs the command line.
fn run() -> Result<(), Box<dyn std::error::Error>> {
    let command = parse(std::env::args().skip(1))?;
    // One thread, so that the processor time of a run does not depend on the machine's number of cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        Command::Serve(listen) => runtime.block_on(server::serve(&listen))?,
        Command::Bulk(connect, bulk) => println!("{}", runtime.block_on(client::bulk(&connect, bulk))?),
        Command::FirstByte(connect, tries) => println!("{}", runtime.block_on(client::first_byte(&connect, tries))?),
    }
    Ok(())
}
