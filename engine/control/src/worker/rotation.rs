//! Rotation of this node's WireGuard key.
//!
//! ```text
//! Command::RotateKey ─▶ next key saved ─▶ hello with the next key ─▶ a map that lists it ─▶ key saved ─▶ ControlEvent::Identity, then the map
//! ```
//! The present key stays in use until the coordinator has listed the next one, so a refusal, or a coordinator that is away, changes nothing. A program that ends
//! meanwhile goes on with the next key at its next start.

use taut_base::PublicKey;
use taut_netmap::{Problem, ProblemCode};
use taut_noise::public_key;

use super::Worker;
use crate::event::ControlEvent;
use crate::identity::unix_now;

impl Worker {
    /// Begins to rotate the key.
    pub(super) fn rotate_key(&mut self) {
        let Some(membership) = self.membership.as_ref().filter(|membership| membership.accepted) else { return };
        if membership.next_node_key.is_none() {
            let mut next = membership.clone();
            let saved = taut_dial::private_key().and_then(|key| {
                next.next_node_key = Some(key);
                self.store.save_membership(&next)
            });
            if let Err(error) = saved {
                return self.emit(self.store.not_saved(&error, "the key was not rotated"));
            }
            self.membership = Some(next);
        }
        self.start_over();
    }

    /// Makes the next key the present one, if the map lists it.
    pub(super) fn promote_key(&mut self, listed: PublicKey) {
        let Some(membership) = &self.membership else { return };
        let Some(next) = membership.next_node_key.clone().filter(|next| public_key(next) == listed) else { return };
        let mut rotated = membership.clone();
        (rotated.node_key, rotated.next_node_key, rotated.key_made_at) = (next, None, unix_now());
        // If saving fails, the next start says hello with the next key again, which the coordinator lists already.
        if let Err(error) = self.store.save_membership(&rotated) {
            let text = self.store.explain(&error);
            self.emit(ControlEvent::DiskProblem(text));
        }
        let identity = Box::new(rotated.announce());
        self.membership = Some(rotated);
        self.emit(ControlEvent::Identity(identity));
    }

    /// Gives the next key up, because the coordinator refuses it. Returns true if there was one.
    pub(super) fn give_up_key(&mut self, problem: &Problem) -> bool {
        let is_about_key = matches!(problem.code, ProblemCode::TooOften | ProblemCode::KeyConflict);
        let Some(membership) =
            self.membership.as_ref().filter(|membership| is_about_key && membership.next_node_key.is_some())
        else {
            return false;
        };
        let mut former = membership.clone();
        former.next_node_key = None;
        if let Err(error) = self.store.save_membership(&former) {
            let text = self.store.explain(&error);
            self.emit(ControlEvent::DiskProblem(text));
        }
        self.membership = Some(former);
        true
    }
}
