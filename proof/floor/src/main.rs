//! `floor`: the least processing that any tunnel from a TUN to a UDP socket needs, as a lower bound for measurements of tunnels. It is not a tunnel.
//!
//! It moves superpackets from a TUN to a UDP socket and back with the same system calls as a lane, and does only what bytes need to arrive. The difference between its throughput and the bare link's is the cost of kernel and cipher; the difference between a real tunnel's and its
//! own is the cost of that tunnel's duties. `make bench-tunnel` has it in its tables.
//!
//! It lacks, on purpose:
//! - handshakes, peers, routes, roaming: there is one peer at one address, and one fixed key that is public in this source. **Nothing is secret**;
//! - a replay window, and counters that never repeat: they begin at zero with each start, with the same key;
//! - timers, limits, statistics, backpressure: a packet without room is dropped;
//! - checks of the segments that it joins: TCP segments with consecutive sequence numbers are taken for neighbours of one flow with the same options,
//!   addresses and marks;
//! - checksums over payload: the receiver tells its kernel that the TCP checksum is partial, and UDP has none;
//! - IPv6, IPv4 options, and more than one thread.
//!
//! It is the cheapest implementation that we know; a cheaper one may exist.
//!
//! It must deliver all bytes unchanged, or its figures would be too good: lab/tests/test_floor.py compares sent and received bytes.

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

/// The first line of output, which warns users that the process protects nothing.
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
