//! The packets' way: TUN to UDP and back, one thread per lane.
//!
//! A lane owns one TUN queue, one UDP socket, and the counters and replay windows of its sessions; it shares nothing that it must wait for. A node may have
//! several lanes. A flow keeps its queue, its lane and its socket. A packet that one lane reads and another lane seals is handed off over a ring (`ring`).
//! `selector` says when a flow may change its lane.
//!
//! - [`LaneCore`] is pure, and composed of machines that own their state (`lane_core`). A superpacket or a received run goes in; a [`SendBatch`] and packets
//!   for the TUN come out. The way out reads from top to bottom in `lane_core/outbound.rs`, the way in in `lane_core/inbound.rs`.
//! - [`Lane`] is the handle of the thread around it (`thread`): one epoll over TUN, socket and command queue; no allocation, lock or channel per packet. Both
//!   directions run on one thread, because with few cores a wake-up costs more than a cipher.
//! - Backpressure (law 9): while the socket is full, the lane does not read the TUN. The kernel's queue in front of the TUN fills, and senders slow down.
//!
//! What a lane cannot do itself, such as handshakes and the choice of endpoints, it asks of the agent through a bounded queue, and never waits.
//!
//! The modules import each other in one direction only: `thread` uses `lane_core`, which uses the machines.

mod base_round_trip;
mod batch;
mod busy_poll;
mod control;
mod control_limits;
mod drops;
mod held;
mod inbound_io;
mod ingress;
mod lane;
mod lane_core;
mod load;
mod locals;
mod numbers;
mod outbox;
mod path;
mod peer_gate;
mod peers;
mod piece_support;
mod queue;
mod queue_marks;
mod reassembly;
mod relays;
mod replacement;
mod ring;
mod selector;
mod shared;
mod staging;
mod thread;
mod traffic;

pub use batch::{Flush, SEALED_SUPERPACKET_MAX, SendBatch};
pub use drops::{DropCounts, DropReason};
pub use inbound_io::InboundIo;
pub use lane::{Lane, LaneStartError};
pub use lane_core::LaneCore;
pub use lane_core::outbound::{HandOff, Released};
pub use locals::LocalTable;
pub use queue::{AgentEnd, LaneEnd, queues};
pub use ring::{Rings, rings};
pub use selector::Mark;
pub use shared::LaneShared;
pub use thread::LaneConfig;
pub use traffic::{PeerTraffic, TrafficTable};
