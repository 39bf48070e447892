//! Builds the message for a node that takes no part in its network: what it waits for, and what its user can do.

use taut_netmap::{Waiting, WaitingFor};

use crate::clock::unix_now;
use crate::state::{State, StateError};
use crate::store::{Part, RequestRow};

/// Returns the message for a node that takes no part. `request` is its request to be approved, if it has one.
pub(super) fn of(state: &State, part: Part, request: Option<&RequestRow>) -> Waiting {
    let (reason, message, hint) = match part {
        Part::Disabled => (
            WaitingFor::Enabling,
            "an operator disabled this node: it has no peers until it is enabled again",
            "ask the network's operator (`taut-coordinator devices enable NAME`); nothing has to be done here",
        ),
        Part::Expired => (
            WaitingFor::Renewal,
            "this node's membership has expired: it has no peers until it is renewed",
            "run `taut up` to have a person approve it again, or `taut up --join TOKEN`; its name and addresses stay",
        ),
        Part::Unapproved | Part::Takes if request.is_none() => (
            WaitingFor::Approval,
            "this machine waits until an administrator of its network approves it",
            "ask the network's operator (`taut-coordinator devices approve NAME`); nothing else has to be done here",
        ),
        Part::Unapproved | Part::Takes => (
            WaitingFor::Approval,
            "this machine waits until a person approves it",
            "open the page, or ask the network's operator (`taut-coordinator devices approve CODE`); nothing else has to be done here",
        ),
    };
    Waiting {
        reason,
        message: String::from(message),
        hint: String::from(hint),
        code: request.map(|request| request.code.clone()),
        page: request.and_then(|request| state.page_of(&request.code)),
        expires_in: request.map(|request| u64::try_from(request.expires_at - unix_now()).unwrap_or(0)),
    }
}

/// Returns the message for a node that asked for a code and got none.
pub(super) fn without_code(part: Part, error: &StateError) -> Waiting {
    let reason = if part == Part::Expired { WaitingFor::Renewal } else { WaitingFor::Approval };
    // The node is not told why the database failed: those details belong in the log.
    let message = match error {
        StateError::Store(_) => {
            String::from("this node waits for its approval, and the coordinator cannot make a code now")
        }
        other => format!("this node waits for its approval, and has no code: {other}"),
    };
    Waiting { reason, message, hint: String::from(error.hint()), code: None, page: None, expires_in: None }
}
