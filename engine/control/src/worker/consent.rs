//! The overlay's prefixes: pinned when the network first came up on this host, changed by the user alone (fault E24).
//!
//! ```text
//!  no pins ──PinPrefixes──▶ pinned ──a map with others──▶ waiting: the last good map stays in force (law 6)
//!                             ▲  ▲                            │  │
//!                             │  └──a map with the pinned ones┘  │
//!                             └────────AcceptPrefixes────────────┘
//! ```
//! A coordinator that was broken into could otherwise move the overlay onto the addresses of a local network: the host route of a member wins over
//! the route to a neighbour. The channel stays open meanwhile, so that presence and tickets go on.

use taut_base::Time;
use taut_netmap::{NetworkMap, Prefixes};

use super::Worker;
use crate::event::{Event, OtherPrefixes};

/// What waits for the user's consent.
#[derive(Default)]
pub(super) struct PrefixConsent {
    /// The coordinator's present map, checked, as the coordinator said it. At most one.
    pub(super) waiting: Option<NetworkMap>,
    /// What the agent was told last.
    told: Option<OtherPrefixes>,
}

impl Worker {
    /// Pins the prefixes of the map in force, unless some are pinned.
    pub(super) fn pin_prefixes(&mut self) {
        let Some(map) = &self.map else { return };
        let prefixes = Prefixes::from(&map.network);
        self.change_membership(|membership| {
            membership.pinned.get_or_insert(prefixes);
        });
    }

    /// Returns true if this map has other prefixes than those that are pinned.
    pub(super) fn needs_consent(&self, map: &NetworkMap) -> bool {
        self.pinned().is_some_and(|pinned| pinned != Prefixes::from(&map.network))
    }

    fn pinned(&self) -> Option<Prefixes> {
        self.membership.as_ref()?.pinned
    }

    /// Keeps a checked map until the user consents to its prefixes, and tells the agent.
    pub(super) fn set_aside(&mut self, map: NetworkMap, now: Time) {
        let Some(pinned) = self.pinned() else { return };
        self.note_accepted(now);
        let wanted = Prefixes::from(&map.network);
        self.prefixes.waiting = Some(map);
        self.tell_consent(Some(OtherPrefixes { pinned, wanted }));
    }

    /// The coordinator's map has the pinned prefixes again.
    pub(super) fn end_refusal(&mut self) {
        self.prefixes.waiting = None;
        self.tell_consent(None);
    }

    /// The user consents to these prefixes. They are pinned, and the map that waits comes into force.
    pub(super) fn accept_prefixes(&mut self, prefixes: Prefixes, now: Time) {
        // The coordinator may want others by now, which the user has not read.
        let Some(map) = self.prefixes.waiting.take_if(|map| Prefixes::from(&map.network) == prefixes) else { return };
        self.change_membership(|membership| membership.pinned = Some(prefixes));
        self.tell_consent(None);
        self.store.set_named(map.relays.clone());
        self.follow(map, now);
    }

    fn tell_consent(&mut self, told: Option<OtherPrefixes>) {
        if self.prefixes.told != told {
            self.prefixes.told = told;
            self.emit(Event::OtherPrefixes(told));
        }
    }
}
