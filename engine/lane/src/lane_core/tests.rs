//! Two lane cores connected by the tests: what one sends, the other receives.

mod by_peer;
mod congestion;
mod control;
mod handed_off;
mod inbound;
mod kit;
mod locals;
mod long;
mod names;
mod outbound;
mod outputs;
mod partial_checksums;
mod path;
mod policy;
mod relays;
mod timers;
