//! The one output of a peer's paths.

use taut_base::{Entropy, Time};
use taut_wire::control::Endpoints;

use super::{Paths, Probe, SearchRound};
use crate::budget::Budget;
use crate::choice::Choice;
use crate::event::PathEvent;
use crate::local_endpoints::LocalEndpoints;

/// What [`Paths::poll_output`] needs of the node.
pub struct PathContext<'a, E> {
    /// This node's endpoints, which the peer is told.
    pub local_endpoints: &'a LocalEndpoints,
    /// The node's limits on probes.
    pub budget: &'a mut Budget,
    /// Randomness for ids and gaps of probes.
    pub entropy: &'a mut E,
    /// The present time.
    pub now: Time,
}

/// Something that the paths to one peer ask the node to do, or report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathOutput {
    /// The lanes send data as this says from now on. Comes before everything else that is due, because endpoints and searches go where data goes.
    Choice(Choice),
    /// The peer is told where this node may be reached.
    Endpoints(Endpoints),
    /// A round of port search begins.
    OpenSearch(SearchRound),
    /// A probe is sent.
    Probe(Probe),
    /// The sockets of the last port search are closed.
    CloseSearch,
    /// The settled packet limit of the path in use: the host's routes follow it.
    Limit(u16),
    /// A state changed.
    Event(PathEvent),
}

impl Paths {
    /// Returns the next thing to do or to know of. Call it after every input and at [`Self::poll_timeout`], until it returns `None`.
    pub fn poll_output(&mut self, context: &mut PathContext<'_, impl Entropy>) -> Option<PathOutput> {
        let PathContext { local_endpoints, budget, entropy, now } = context;
        let now = *now;
        if let Some(choice) = self.next_choice(now) {
            return Some(PathOutput::Choice(choice));
        }
        if let Some(limit) = self.next_limit() {
            return Some(PathOutput::Limit(limit));
        }
        if let Some(endpoints) = self.next_endpoints(local_endpoints, now) {
            return Some(PathOutput::Endpoints(endpoints));
        }
        if let Some(round) = self.next_search(local_endpoints, budget, now) {
            return Some(PathOutput::OpenSearch(round));
        }
        if let Some(probe) = self.next_probe(budget, *entropy, now) {
            return Some(PathOutput::Probe(probe));
        }
        if self.close_search(now) {
            return Some(PathOutput::CloseSearch);
        }
        if let Some(event) = self.next_event() {
            return Some(PathOutput::Event(event));
        }
        // The end of a search changes the packet limit.
        self.next_choice(now).map(PathOutput::Choice).or_else(|| self.next_limit().map(PathOutput::Limit))
    }

    /// Changes of candidates come before changes of the path, which follow from them.
    pub(super) fn next_event(&mut self) -> Option<PathEvent> {
        let changed = self.candidates.iter_mut().find_map(super::CandidateState::poll_event);
        changed.or_else(|| self.events.pop()).or_else(|| self.next_limit_change())
    }
}
