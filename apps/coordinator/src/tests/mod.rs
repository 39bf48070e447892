//! The coordinator as nodes and operators meet it: real files, real sockets on loopback, a small node of our own on the other side.

mod backup;
mod channel;
mod cutoff;
mod document;
mod enrolment;
mod fairness;
mod front;
mod http;
mod maps;
mod moved_on_server;
mod on_server;
mod operator;
mod presence;
mod relays;
mod replay;
mod replicas;
mod trouble;
mod upgrades;
mod world;

pub(crate) use world::Directory;
