//! Where a peer may be reached, and the way data takes to it.
//!
//! A *candidate* is an endpoint not yet proven: the map lists it, the peer says it, or its packets came from there. A way carries data after a proof on it
//! (law 3), or because a relay says that it has the peer. Pure and deterministic: time, entropy and what happened are arguments.
//!
//! ```text
//! for each Taut peer    Paths      its candidates, their probes, the choice between them; says why (Report)
//!                                  (looking for ports that nobody knows: `search`)
//! for the node          Budget     what probes may go where
//!                       LocalEndpoints       where we may be reached, as we tell peers
//!                       NatReport    where relays see us, how our NAT maps and filters, how far the relays are
//!                       HomeRelay       which relays are ours
//! for each lane, peer   LivenessDetector      has what was sent been heard of?
//! for native peers      Candidates what to try for a handshake; they roam as stock WireGuard does
//! ```
//! [`acceptable`] says what may never be sent to, whoever lists it.

mod budget;
mod candidate_state;
mod candidates;
mod choice;
mod event;
mod home_relay;
mod liveness;
mod local_endpoints;
mod nat;
mod nat_report;
mod paths;
mod probes;
mod report;
mod search;
mod sizes;
mod way;

pub use budget::Budget;
pub use candidate_state::{DownCause, Origins, Suspicion};
pub use candidates::{Candidates, acceptable};
pub use choice::Choice;
pub use event::{HomeChangeReason, HomeRelayEvent, NatChangeReason, NatEvent, PathChangeReason, PathEvent};
pub use home_relay::{HomeRelay, HomeRelayOutput};
pub use liveness::{LivenessDetector, SILENCE};
pub use local_endpoints::LocalEndpoints;
pub use nat::Nat;
pub use nat_report::{
    Ask, Distance, Filtering, Foretold, Mapping, Measured, NatReport, NatReportOutput, NatReportView, Server,
};
pub use paths::{Families, PathContext, PathOutput, Paths, PortSearch, Probe, SearchRound, View};
pub use report::{Here, Meaning, Place, Report, Verdict, WayReport};
pub use search::{Guessed, SOCKETS};
pub use way::Way;
