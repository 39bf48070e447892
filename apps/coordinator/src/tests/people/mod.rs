//! People: signing in, roles, tokens, the audit log, and what browsers are protected from.

mod audit;
mod browser;
mod client;
mod commands;
mod matrix;
mod oidc;
mod repeat;
mod sign_in;
mod users;
