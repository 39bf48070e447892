//! Where a peer may be reached, and the path that data takes to it.
//!
//! A *candidate* is an endpoint that is not yet proven: the network map lists it, the peer reports it, or packets of the peer came from it. A path
//! carries data after a proof on it (law 3), or because a relay says that the peer is connected to it. The crate is pure and deterministic: time,
//! entropy and events are arguments. Each state machine takes inputs by method and returns everything through one `poll_output` (law 17).
//!
//! ```text
//! for each Taut peer    Paths             candidates, their probes, the choice between them, and its explanation (PathReport)
//!                       search            the search for ports that neither side can name
//!                       PacketLimit       the longest packet that each candidate carries
//! for the node          Budget            limits on probes
//!                       LocalEndpoints    this node's own endpoints, as it reports them to peers
//!                       NatReport         the endpoints that relays see, the NAT's mapping and filtering, distances of relays
//!                       HomeRelay         the relays that this node is bound to
//! for each lane, peer   LivenessDetector  detects that data is not acknowledged
//! for native peers      Candidates        endpoints to try for a handshake; native peers roam as in stock WireGuard
//! ```
//! [`acceptable`] decides which addresses may never be sent to, whichever source lists them.

mod budget;
mod candidate_state;
mod candidates;
mod choice;
mod event;
mod families;
mod home_relay;
mod liveness;
mod local_endpoints;
mod nat;
mod nat_report;
mod packet_limit;
mod paths;
mod probes;
mod reasons;
mod report;
mod search;
mod way;

pub use budget::Budget;
pub use candidate_state::Origins;
pub use candidates::{Candidates, acceptable};
pub use choice::Choice;
pub use event::{HomeChangeReason, HomeRelayEvent, NatChangeReason, NatEvent, PathChangeReason, PathEvent};
pub use families::Families;
pub use home_relay::{HomeRelay, HomeRelayOutput};
pub use liveness::{LivenessDetector, SILENCE};
pub use local_endpoints::LocalEndpoints;
pub use nat::{Nat, PortPrediction};
pub use nat_report::{
    Distance, Measured, NatFiltering, NatMapping, NatReport, NatReportOutput, NatReportView, StunQuery, StunServer,
};
pub use paths::{PathContext, PathOutput, PathView, Paths, PortSearch, Probe, SearchRound};
pub use reasons::{DownCause, Suspicion};
pub use report::{EndpointLocation, LimitCause, LocalNetwork, Meaning, PathReport, Verdict, WayLimit, WayReport};
pub use search::{SOCKETS, SearchProgress};
pub use way::Way;
