//! The party of a request: who it is, what it may do, and the record of what it changed. All rules use it, and it uses none of them.

mod access;
mod caller;
mod error;
mod record;

pub(crate) use access::{Access, Area, Grants, Need, Role, Scopes};
pub(crate) use caller::{Actor, Caller};
pub(crate) use error::PeopleError;
pub(crate) use record::{Change, record};
