//! The coordinator: enrols nodes, hands out addresses, streams the network map.
//!
//! Three rooms, each entered only from the one above it: [`api`] (what may be said over the network, and how it is answered), [`state`]
//! (the one place where rules about members, addresses and keys live), [`store`] (SQLite; the only room that names sqlx). Beside them
//! [`cli`]: `serve`, and commands that talk to the HTTP API of a running coordinator; and [`relay`]: the relay inside.
//!
//! It promises: what was acknowledged survives a loss of power; a map is sent only from one complete read, after the check that the node
//! will make, too (an error is never an empty map); an address is not handed out twice; a one-off key opens the network once.
//! It refuses: to hold a node's private key, to see a packet, to serve a path of its API without a token, to act on a byte before the
//! handshake has ended.

mod api;
mod cli;
mod clock;
mod contract;
mod log;
mod relay;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
