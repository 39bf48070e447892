//! Two hearts face to face: what one sends is handed to the other by the tests.

mod congestion;
mod control;
mod inbound;
mod kit;
mod locals;
mod marks;
mod outbound;
mod path;
mod relays;
mod timers;
