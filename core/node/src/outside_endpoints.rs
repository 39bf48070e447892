//! The node's endpoints outside its NAT, as the coordinator is told of them.

use std::net::SocketAddr;

/// What gateways and relays say of this node's endpoints.
#[derive(Default)]
pub(crate) struct OutsideEndpoints {
    mapped: Vec<SocketAddr>,
    reflexive: Vec<SocketAddr>,
    /// What the coordinator was told last.
    told: Vec<SocketAddr>,
}

impl OutsideEndpoints {
    /// Takes the endpoints that gateways forward to the first lane's port.
    pub(crate) fn set_mapped(&mut self, endpoints: &[SocketAddr]) {
        self.mapped = endpoints.to_vec();
    }

    /// Takes the endpoints at which relays see the first lane's socket.
    pub(crate) fn set_reflexive(&mut self, endpoints: Vec<SocketAddr>) {
        self.reflexive = endpoints;
    }

    /// Returns the endpoints at which relays see the first lane's socket.
    pub(crate) fn reflexive(&self) -> &[SocketAddr] {
        &self.reflexive
    }

    /// Returns all endpoints, those that gateways mapped first, if the coordinator was told of others.
    pub(crate) fn poll_output(&mut self) -> Option<Vec<SocketAddr>> {
        let mut all = self.mapped.clone();
        all.extend(self.reflexive.iter().filter(|endpoint| !self.mapped.contains(endpoint)));
        let changed = all != self.told;
        self.told.clone_from(&all);
        changed.then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coordinator_is_told_of_each_endpoint_once_and_only_of_changes() {
        let [mapped, seen] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let mut endpoints = OutsideEndpoints::default();
        assert_eq!(endpoints.poll_output(), None);
        endpoints.set_reflexive(vec![seen, mapped]);
        endpoints.set_mapped(&[mapped]);
        assert_eq!(endpoints.poll_output(), Some(vec![mapped, seen]));
        assert_eq!(endpoints.poll_output(), None);
        endpoints.set_mapped(&[]);
        assert_eq!(endpoints.poll_output(), Some(vec![seen, mapped]));
        endpoints.set_reflexive(Vec::new());
        assert_eq!(endpoints.poll_output(), Some(Vec::new()), "an endpoint that is gone is news");
    }
}
