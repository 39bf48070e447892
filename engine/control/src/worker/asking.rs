//! The request to be approved by a person: `taut up` without a token.
//!
//! ```text
//! Command::Ask ─▶ keys saved ─▶ hello with a request, for no network ─▶ ControlEvent::Waiting(code) ─▶ Welcome ─▶ network saved ─▶ hello for that network
//! ```
//! The coordinator binds the request to the machine key of the channel. After any interruption the node asks again with the same keys, and gets the same code, or the
//! network if it was approved meanwhile.

use std::time::Duration;

use taut_base::Time;
use taut_dial::Broken;
use taut_netmap::{Request, Waiting};

use super::Worker;
use super::connection::usable;
use crate::event::{ControlEvent, Place};
use crate::identity::Membership;

impl Worker {
    /// Asks to be let into a network of a coordinator, or to have the membership renewed.
    pub(super) fn ask(&mut self, place: Option<&Place>, name: String) {
        self.stop_leaving();
        let known = self.membership.as_ref().and_then(|present| {
            let url = usable(&present.urls).first()?.to_string();
            Some(Place { url, key: present.coordinator })
        });
        let Some(place) = place.cloned().or(known) else {
            self.emit(ControlEvent::NeedsJoin);
            return;
        };
        match &self.membership {
            Some(present) if present.may_be_listed() && present.coordinator == place.key => {
                self.asks_again = true;
                self.change_membership(|membership| membership.wanted = true);
                self.start_over();
            }
            Some(present) if present.may_be_listed() => {
                let problem = self.member_elsewhere(present.accepted);
                self.emit(ControlEvent::Refused(problem));
            }
            present => {
                let asking = Membership::asking(present.as_ref(), &place, name, self.port);
                self.begin_membership(asking);
            }
        }
    }

    /// Returns the request of the next hello.
    pub(super) fn request(&self) -> Option<Request> {
        let membership = self.membership.as_ref().filter(|_| self.leaving.is_none())?;
        (membership.is_asking() || self.asks_again).then(|| Request { name: membership.name.clone() })
    }

    /// Takes the coordinator's news that this node takes no part in the network.
    pub(super) fn handle_waiting(&mut self, waiting: Waiting, now: Time) {
        self.waits = true;
        // The channel works, although there is no map: the next attempt begins with its URL.
        self.accepted(now);
        self.emit(ControlEvent::Waiting(Some(waiting)));
    }

    /// Notes that this node takes part in the network.
    pub(super) fn end_waiting(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.asks_again = false;
            self.emit(ControlEvent::Waiting(None));
        }
    }

    /// Takes the network that a person let this node into.
    pub(super) fn handle_welcome(&mut self, network: &str, urls: &[String], now: Time) {
        let Some(membership) = self.membership.as_ref().filter(|membership| membership.is_asking()) else { return };
        let number = u128::from_str_radix(network, 16).ok().filter(|number| network.len() == 32 && *number != 0);
        let Some(number) = number else {
            let why = "the coordinator let this node into a network whose number is none";
            return self.lose(&Broken(String::from(why)), now);
        };
        let welcomed = membership.welcomed(number.to_be_bytes(), urls);
        self.begin_membership(Ok(welcomed));
    }

    /// Takes the time until this node's membership expires.
    pub(super) fn handle_expiry(&self, left: Option<u64>) {
        self.emit(ControlEvent::Expiry(left.map(Duration::from_secs)));
    }
}
