//! Refusals that are sent to nodes.

use std::fmt;

use taut_netmap::{Problem, ProblemCode, SCHEMA};
use taut_relay_server::Source;
use taut_relay_server::log::UNAUTHENTICATED;

use crate::log;
use crate::state::StateError;

/// Returns the refusal of a node or a relay that speaks a newer protocol.
pub(in crate::api) fn too_new(schema: u32) -> Problem {
    Problem {
        code: ProblemCode::Version,
        message: format!("this program speaks version {schema} of the control channel, the coordinator {SCHEMA}"),
        hint: String::from("update the coordinator, or use an older release here"),
    }
}

/// Returns the refusal of a node whose keys another connected host uses.
pub(super) fn duplicate() -> Problem {
    Problem {
        code: ProblemCode::Twin,
        message: String::from(
            "another host uses this node's keys: its state directory was copied, or its machine cloned",
        ),
        hint: String::from(
            "on one of the two run `taut down`, remove its state directory and join again; until then the one that was started last is served",
        ),
    }
}

/// Returns the refusal of a channel for which there is no descriptor.
pub(super) fn crowded() -> Problem {
    Problem {
        code: ProblemCode::Unavailable,
        message: String::from("the coordinator has as many control channels as it has descriptors for"),
        hint: String::from(
            "the operator can raise its limit of open files (`LimitNOFILE=` in its unit, `ulimit -n`); it is tried again",
        ),
    }
}

/// Returns the refusal for an error. Its code is final for the node only if a person has to change something.
pub(in crate::api) fn problem(error: &StateError) -> Problem {
    let code = match error {
        StateError::Enrolment(_) => ProblemCode::Enrolment,
        StateError::NotAMember | StateError::UnknownRelay(_) => ProblemCode::NotAMember,
        StateError::KeyConflict | StateError::KeyRevoked | StateError::BadKey => ProblemCode::KeyConflict,
        StateError::KeyChanges | StateError::Crowd | StateError::Turnover | StateError::Requests => {
            ProblemCode::TooOften
        }
        StateError::Denied => ProblemCode::Denied,
        StateError::Store(_)
        | StateError::Full
        | StateError::Unsound(_)
        | StateError::Panicked
        | StateError::StoredPolicy(_)
        | StateError::BadMap(_) => ProblemCode::Unavailable,
        StateError::NoNetwork(_)
        | StateError::WhichNetwork
        | StateError::Several { .. }
        | StateError::NoNetworks
        | StateError::HasMembers { .. }
        | StateError::NetworkExists(_)
        | StateError::BadPrefix(_)
        | StateError::NoNode(_)
        | StateError::NoKey(_)
        | StateError::NoOperator(_)
        | StateError::LastOperator
        | StateError::NoRelay(_)
        | StateError::RelayExists(_)
        | StateError::BadRelay(_)
        | StateError::NoPlace
        | StateError::OwnRelay
        | StateError::NameTaken(_)
        | StateError::BadName(..)
        | StateError::BadExpiry
        | StateError::BadUses
        | StateError::BadAbsence
        | StateError::BadLife
        | StateError::BadTag(_)
        | StateError::BadOwner
        | StateError::NotTagOwner(_)
        | StateError::ManyDevices
        | StateError::ManyRoutes { .. }
        | StateError::BadPolicy(_)
        | StateError::PolicyBusy
        | StateError::LongPolicy
        | StateError::LargeFilter(..)
        | StateError::PolicyTests(_)
        | StateError::TooOld(_)
        | StateError::PolicyChanged(_)
        | StateError::NoPolicy(_)
        | StateError::NotAdvertised { .. }
        | StateError::NotApproved { .. }
        | StateError::BadDomain { .. }
        | StateError::NoName(_)
        | StateError::ManyNames
        | StateError::NoPart
        | StateError::NoRequest(_)
        | StateError::BadWebhook(_)
        | StateError::BadEvents
        | StateError::ManyWebhooks
        | StateError::NoWebhook(_)
        | StateError::People(_) => ProblemCode::BadRequest,
    };
    // Details of the database are for the log, not for a node.
    let message = match error {
        StateError::Store(_) => String::from("the coordinator cannot answer now: its database failed"),
        other => other.to_string(),
    };
    Problem { code, message, hint: String::from(error.hint()) }
}

/// Logs that a connection did not become a control channel.
pub(super) fn note(source: &Source, reason: &dyn fmt::Display) {
    tracing::info!(target: log::CONTROL, limited = UNAUTHENTICATED, event = "channel-refused", address = %source, %reason);
}
