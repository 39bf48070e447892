//! `floor`: the least that a tunnel of this shape costs on a machine, to compare measurements of tunnels with. It is not a tunnel.
//!
//! It moves superpackets from a TUN to a UDP socket and back with the same system calls as a lane, and does nothing else that could be left out while bytes
//! still arrive. The difference between its throughput and the bare link's is the cost of kernel and cipher; the difference between a real tunnel's and its
//! own is the cost of that tunnel's duties. `make bench-tunnel` has it in its tables.
//!
//! It lacks, on purpose:
//! - handshakes, peers, routes, roaming: one peer at one address, one fixed key that anybody can read here. **Nothing is secret**;
//! - a replay window, and counters that never repeat: they begin at zero with each start, with the same key;
//! - timers, limits, statistics, backpressure: a packet without room is dropped;
//! - checks of the segments that it joins: TCP segments with consecutive sequence numbers are taken for neighbours of one flow with the same options,
//!   addresses and marks;
//! - checksums over payload: the receiver tells its kernel that the TCP checksum is partial, and UDP has none;
//! - IPv6, IPv4 options, and more than one thread.
//!
//! It is the least that we know how to do, which does not prove that there is no less.
//!
//! It must deliver what was sent, or it would flatter its figures: lab/tests/test_floor.py compares both.

mod arguments;
mod cipher;
mod inbound;
mod outbound;
mod packet;
mod pump;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use arguments::FloorArguments;
use pump::Pump;

/// The first line of output, for users who might take such a process for protection.
const WARNING: &str = "not a tunnel: a measurement of what one costs at least; nothing is secret";

fn main() -> ExitCode {
    println!("{WARNING}");
    let Err(why) = run() else { return ExitCode::SUCCESS };
    eprintln!("floor: {why}");
    ExitCode::FAILURE
}

/// Runs until it is killed or fails.
fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = FloorArguments::parse(std::env::args().skip(1))?;
    let mut pump = Pump::new(&arguments)?;
    println!("{} is there, listening on port {}", arguments.tun, arguments.port);
    Ok(pump.run()?)
}
