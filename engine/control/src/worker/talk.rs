//! What the coordinator says, and what follows from it.

use std::sync::Arc;

use taut_base::Time;
use taut_netmap::{Delta, NetworkMap, Problem, ProblemCode, ToNode};

use super::Worker;
use crate::channel::{Broken, Received};
use crate::event::Event;

impl Worker {
    /// Acts upon one message.
    pub(super) fn hear(&mut self, message: Received, now: Time) {
        let Received::Known(message) = message else { return };
        match *message {
            ToNode::Map(map) => self.take_map(map, now),
            ToNode::Delta(delta) => self.take_delta(&delta, now),
            ToNode::Presence { whole, nodes } => self.emit(Event::Presence { whole, nodes }),
            ToNode::Pong => {}
            ToNode::Refused(problem) => self.take_refusal(problem, now),
        }
    }

    fn take_map(&mut self, map: NetworkMap, now: Time) {
        match map.check().map_err(|refusal| refusal.to_string()).and_then(|()| self.check_own_key(&map)) {
            Ok(()) => self.follow(map, now),
            Err(why) => self.reject(&why, now),
        }
    }

    fn take_delta(&mut self, delta: &Delta, now: Time) {
        let applied = match &self.map {
            Some(map) => map.apply(delta).map_err(|refusal| refusal.to_string()),
            None => Err(String::from("the coordinator sent a change of a network map that this node does not have")),
        };
        match applied.and_then(|map| self.check_own_key(&map).map(|()| map)) {
            Ok(map) => self.follow(map, now),
            Err(why) => self.reject(&why, now),
        }
    }

    /// Others would encrypt to a key that is not ours.
    fn check_own_key(&self, map: &NetworkMap) -> Result<(), String> {
        match &self.membership {
            Some(membership) if membership.node_public_key() == map.me.key => Ok(()),
            _ => Err(String::from(
                "the network map was refused and the last good one kept: it gives this node a key that is not its own",
            )),
        }
    }

    /// Takes a checked map: tells the keeper, saves it.
    fn follow(&mut self, map: NetworkMap, now: Time) {
        self.resume = true;
        if self.accepted(now) {
            self.change_membership(|membership| {
                membership.accepted = true;
                membership.forget_secret();
            });
        }
        // The answer of a coordinator that has nothing new.
        if self.map.as_ref().is_some_and(|present| **present == map) {
            return;
        }
        let map = Arc::new(map);
        self.map = Some(Arc::clone(&map));
        self.emit(Event::Map(map));
        self.store.map_changed(now);
        self.save_what_is_due(now);
    }

    /// Keeps the last good map, and asks for a whole one on a new channel (law 6).
    fn reject(&mut self, why: &str, now: Time) {
        self.resume = false;
        self.lose(&Broken(String::from(why)), now);
    }

    fn take_refusal(&mut self, problem: Problem, now: Time) {
        let member = self.membership.as_ref().filter(|membership| membership.accepted);
        if problem.code == ProblemCode::Enrolment && member.is_some_and(|member| member.is_enrolling()) {
            // A member does not need the secret that was used up meanwhile, such as the one-off key in a container's environment.
            self.change_membership(|membership| membership.forget_secret());
            self.start_over();
            return;
        }
        if problem.code == ProblemCode::NotAMember {
            // From now on this state directory may join another network.
            self.change_membership(|membership| membership.accepted = false);
        }
        let is_final = problem.code.is_final();
        let words = problem.to_string();
        self.emit(Event::Refused(problem));
        if is_final {
            self.drop_link();
        } else {
            self.lose(&Broken(words), now);
        }
    }
}
