//! The party of a request: its identity, its rights, and the audit record of its changes. All rules use this module, and it uses none of them.

mod access;
mod caller;
mod error;
mod record;

pub(crate) use access::{Access, Area, Grants, Need, Role, Scopes};
pub(crate) use caller::{Actor, Caller};
pub(crate) use error::PeopleError;
pub(crate) use record::{Change, record};
