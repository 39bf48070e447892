//! The coordinator as nodes and operators meet it: real files, real sockets on loopback, a small node of our own on the other side.

mod backup;
mod channel;
mod chaos;
mod cutoff;
mod damage;
mod devices;
mod document;
mod enrolment;
mod fairness;
mod front;
mod health;
mod http;
mod maps;
mod moved_on_server;
mod on_server;
mod on_server_refusals;
mod one_writer;
mod operator;
mod panics;
mod people;
mod policy;
mod presence;
mod relay_control;
mod relays;
mod replay;
mod replicas;
mod requests;
mod rolling;
mod routes;
mod saved;
mod times;
mod trouble;
mod upgrades;
mod webhooks;
mod world;

pub(crate) use world::Directory;
