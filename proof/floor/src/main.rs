//! `floor`: the least that a tunnel of this shape costs on a machine, so that a figure that is missed can be judged. Not a tunnel.
//!
//! It moves superpackets from a TUN to a UDP socket and back as a lane does, by the same system calls, and does nothing that could be
//! left out while bytes still arrive. Between what it reaches and what the bare link does lies what the kernel and the cipher take; between
//! it and a real tunnel lies what that tunnel's duties take. `make bench-tunnel` has it in its tables.
//!
//! What it lacks, on purpose:
//! - handshakes, peers, routes, roaming: one peer at one address, one fixed key that everybody can read here. **Nothing is secret**;
//! - a replay window, and counters that never repeat: they begin at zero with each start, under the same key;
//! - timers, limits, statistics, backpressure: what finds no room is dropped;
//! - checks of what it merges: TCP segments whose sequence numbers follow on each other are taken for neighbours of one flow, with
//!   the same options, addresses and marks, whatever they are;
//! - checksums over payload: the receiver tells its kernel that TCP's is partial, and UDP has none;
//! - IPv6, IPv4 options, and more than one thread.
//!
//! It is the least that we know how to do, which is no proof that there is no less.
//!
//! What it must not lack, or it would flatter: what arrives is what was sent. lab/tests/test_floor.py compares it.

mod arguments;
mod cipher;
mod inbound;
mod outbound;
mod packet;
mod pump;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use arguments::Arguments;
use pump::Pump;

/// The first line of output, for whoever finds such a process and takes it for protection.
const WARNING: &str = "not a tunnel: a measurement of what one costs at least; nothing is secret";

fn main() -> ExitCode {
    println!("{WARNING}");
    let Err(why) = run() else { return ExitCode::SUCCESS };
    eprintln!("floor: {why}");
    ExitCode::FAILURE
}

/// Runs until it is killed, or fails.
fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let mut pump = Pump::new(&arguments)?;
    println!("{} is there, listening on port {}", arguments.tun, arguments.port);
    Ok(pump.run()?)
}
