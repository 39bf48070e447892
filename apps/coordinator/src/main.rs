//! The coordinator: enrols nodes, hands out addresses, streams the network map.
//!
//! Three modules, each used only by the one above it: [`api`] (the HTTP server: control channels and the operator's API), [`state`] (the rules about members,
//! addresses and keys), [`store`] (SQLite; the only module that names sqlx). Beside them: [`contract`], the types of the operator's API; [`cli`], `serve` and
//! the commands that use the API of a running coordinator; [`relay`], the coordinator's own relay; [`oidc`], the client of an OpenID provider; [`webhooks`], what is sent to webhooks;
//! [`outgoing`], the requests of both; [`figures`], what it counts for Prometheus; [`tls`], https on its own port.
//!
//! Promises: an acknowledged change survives a loss of power. A map is sent only from one complete read, after the check that the node will repeat; an error
//! is never an empty map. No address is assigned twice. A one-off key admits one node.
//! The coordinator never holds a node's private key, never sees a packet, serves no path of its API without a token, and acts on no message before the
//! handshake has ended.

mod api;
mod cli;
mod clock;
mod contract;
mod figures;
mod log;
mod oidc;
mod outgoing;
mod panics;
mod process;
mod relay;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod webhooks;

use std::process::ExitCode;

// The profile `release` aborts, as the node needs it. Without this check a build that forgets the coordinator would be noticed at its first panic.
#[cfg(all(panic = "abort", not(debug_assertions)))]
compile_error!(
    "in the coordinator a panic must end one request or channel, and not the program (fault N7); build it with `make build`, or with \
     `cargo build --release --config 'profile.release.panic=\"unwind\"' -p taut-coordinator`"
);

fn main() -> ExitCode {
    cli::main()
}
