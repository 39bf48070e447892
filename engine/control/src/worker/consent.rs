//! The overlay's prefixes: pinned when the network first came up on this host, changed by the user alone (fault E24).
//!
//! ```text
//!  no pins ──PinPrefixes──▶ pinned ──other prefixes────▶ waiting: the last good map stays in force (law 6)
//!                             ▲  ▲                            │  │
//!                             │  └────the pinned prefixes─────┘  │
//!                             └────────AcceptPrefixes────────────┘
//! ```
//! Without pinning, a compromised coordinator could move the overlay onto the addresses of a local network: a member's host route takes precedence over the
//! route to a neighbour. While a map waits for consent the channel stays open, and presence and tickets still arrive.

use taut_base::Time;
use taut_netmap::{NetworkMap, Prefixes};

use super::Worker;
use crate::event::{ControlEvent, OtherPrefixes};

/// State of the user's consent to other prefixes.
#[derive(Default)]
pub(super) struct PrefixConsent {
    /// The coordinator's present map, checked and unchanged, while it waits for consent.
    pub(super) waiting: Option<NetworkMap>,
    /// The content of the last [`ControlEvent::OtherPrefixes`].
    reported: Option<OtherPrefixes>,
}

impl Worker {
    /// Pins the prefixes of the map in force, unless prefixes are pinned already.
    pub(super) fn pin_prefixes(&mut self) {
        let Some(map) = &self.map else { return };
        let prefixes = Prefixes::from(&map.network);
        self.change_membership(|membership| {
            membership.pinned.get_or_insert(prefixes);
        });
    }

    /// Returns true if the map's prefixes differ from the pinned ones.
    pub(super) fn needs_consent(&self, map: &NetworkMap) -> bool {
        self.pinned().is_some_and(|pinned| pinned != Prefixes::from(&map.network))
    }

    fn pinned(&self) -> Option<Prefixes> {
        self.membership.as_ref()?.pinned
    }

    /// Keeps a checked map until the user consents to its prefixes, and reports it to the agent.
    pub(super) fn await_consent(&mut self, map: NetworkMap, now: Time) {
        let Some(pinned) = self.pinned() else { return };
        self.note_accepted(now);
        let wanted = Prefixes::from(&map.network);
        self.prefixes.waiting = Some(map);
        self.report_consent(Some(OtherPrefixes { pinned, wanted }));
    }

    /// Handles a map that has the pinned prefixes again: discards the waiting map and reports that no consent is needed.
    pub(super) fn withdraw_consent_request(&mut self) {
        self.prefixes.waiting = None;
        self.report_consent(None);
    }

    /// Handles the user's consent to `prefixes`: pins them, and applies the waiting map.
    pub(super) fn accept_prefixes(&mut self, prefixes: Prefixes, now: Time) {
        // The waiting map may be newer than the user's consent and have prefixes that the user has not seen.
        let Some(map) = self.prefixes.waiting.take_if(|map| Prefixes::from(&map.network) == prefixes) else { return };
        self.change_membership(|membership| membership.pinned = Some(prefixes));
        self.report_consent(None);
        self.store.set_named(map.relays.clone());
        self.apply_map(map, now);
    }

    fn report_consent(&mut self, other: Option<OtherPrefixes>) {
        if self.prefixes.reported != other {
            self.prefixes.reported = other;
            self.emit(ControlEvent::OtherPrefixes(other));
        }
    }
}
