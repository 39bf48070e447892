//! Two lane cores connected by the tests: what one sends, the other receives.

mod congestion;
mod control;
mod inbound;
mod kit;
mod locals;
mod outbound;
mod outputs;
mod partial_checksums;
mod path;
mod relays;
mod timers;
