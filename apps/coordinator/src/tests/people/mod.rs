//! People: signing in, roles, tokens, the audit log, and protection of browsers.

mod audit;
mod browser;
mod client;
mod commands;
mod matrix;
mod oidc;
mod own_devices;
mod repeat;
mod sign_in;
mod users;

pub(super) use client::{Client, person};
