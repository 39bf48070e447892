//! The way of a packet: TUN to UDP and back, one thread per lane.
//!
//! A lane owns one TUN queue, one UDP socket, and the counters and windows of its sessions; it shares nothing that it must wait for. A node may have
//! several. A flow keeps its queue, its lane and its socket; what one lane reads and another has to seal goes over a ring (`ring`), and when a flow may
//! change its lane is said in `fork`.
//!
//! - [`LaneCore`] is pure: a superpacket or a received batch goes in, a [`SendBatch`] or runs for the TUN come out. The way out reads in
//!   `outbound.rs`, the way in in `inbound.rs`, each from top to bottom.
//! - [`Lane`] is the thread around it: one epoll over TUN, socket and command queue; no allocation, lock or channel per packet. Both
//!   directions run on one thread, because on few cores a wake-up costs more than a cipher.
//! - Backpressure (law 9): a full socket stops the reading of the TUN; the kernel's own queue in front of it fills, and the senders slow down.
//!
//! What a lane cannot do itself (handshakes, choosing endpoints of new peers) it asks of the agent through a bounded queue, and never waits.

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
mod locals;
mod numbers;
mod outbox;
mod path;
mod peers;
mod queue;
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
