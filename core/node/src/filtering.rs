//! The filter of the node's map, and the state that outlives changes of the filter: flows, service ports, and the time when the rules last became narrower.

use std::sync::Arc;

use taut_base::{Entropy, Time};
use taut_filter::{Filter, FlowTable, Gate, PacketFilter, ServicePorts, Services, seconds};

/// Makes the snapshot that lanes enforce.
#[derive(Default)]
pub(crate) struct Filtering {
    /// Hash of the filter in force, to notice that a map has the same one; `None` without a filter.
    known: Option<u64>,
    /// True once a map was set. The first filter of a run is not narrower than anything that this run allowed.
    has_begun: bool,
    filter: Option<Arc<PacketFilter>>,
    flows: Option<Arc<FlowTable>>,
    ports: ServicePorts,
    /// The second in which the rules last became narrower.
    narrowed: Option<u32>,
}

impl Filtering {
    /// Takes the filter of a new map.
    pub(crate) fn set(&mut self, filter: Option<&Filter>, entropy: &mut impl Entropy, now: Time) {
        if self.has(filter) {
            return;
        }
        let next = filter.map(|filter| Arc::new(PacketFilter::new(filter)));
        let narrower = match (&self.filter, &next) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(former), Some(next)) => !next.covers(former),
        };
        if self.has_begun && narrower {
            self.narrowed = Some(seconds(now));
        }
        (self.known, self.has_begun) = (filter.map(Filter::fingerprint), true);
        self.filter = next;
        if self.filter.is_some() && self.flows.is_none() {
            let mut key = [0; 16];
            entropy.fill(&mut key);
            self.flows = Some(Arc::new(FlowTable::new(key)));
        }
    }

    /// Returns true if this is the filter in force.
    pub(crate) fn has(&self, filter: Option<&Filter>) -> bool {
        self.has_begun && filter.map(Filter::fingerprint) == self.known
    }

    /// Sets the ports on which the host offers services. Returns true if they changed.
    pub(crate) fn set_ports(&mut self, ports: ServicePorts) -> bool {
        let differs = self.ports != ports;
        self.ports = ports;
        differs
    }

    /// Returns true if there is a filter.
    pub(crate) fn is_on(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the snapshot for the lanes, if there is a filter.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        let (filter, flows) = (Arc::clone(self.filter.as_ref()?), Arc::clone(self.flows.as_ref()?));
        Some(Arc::new(Gate { filter, flows, services: Services::new(self.ports.clone(), self.narrowed) }))
    }
}

#[cfg(test)]
mod tests {
    use taut_filter::{ALL_PORTS, Rule, Target};
    use taut_testkit::Seeded;

    use super::*;

    fn filter(ports: &[(u16, u16)]) -> Filter {
        let dst = vec![Target { prefix: "100.64.0.1/32".parse().unwrap(), ports: ports.to_vec() }];
        Filter { rules: vec![Rule { src: vec!["100.64.0.0/10".parse().unwrap()], proto: Vec::new(), dst }] }
    }

    #[test]
    fn only_narrower_rules_start_the_time_of_settling() {
        let mut filtering = Filtering::default();
        let (mut entropy, mut second) = (Seeded::new(1), 0);
        let (ssh, web, all) = (filter(&[(22, 22)]), filter(&[(22, 22), (443, 443)]), filter(&[ALL_PORTS]));
        for (next, narrowed) in [
            // The first filter of a run, then one with more ports, and no filter at all.
            (Some(&ssh), None),
            (Some(&web), None),
            (None, None),
            (Some(&all), Some(4)),
            (Some(&web), Some(5)),
            (Some(&web), Some(5)),
            (Some(&all), Some(5)),
            (Some(&Filter::default()), Some(8)),
            (Some(&ssh), Some(8)),
        ] {
            second += 1;
            filtering.set(next, &mut entropy, Time::ZERO + std::time::Duration::from_secs(second));
            assert_eq!(filtering.narrowed, narrowed, "{second}");
        }
    }

    #[test]
    fn a_filter_after_none_is_narrower_and_the_flows_outlive_changes() {
        let (mut filtering, mut entropy) = (Filtering::default(), Seeded::new(1));
        filtering.set(None, &mut entropy, Time::ZERO);
        assert!(filtering.gate().is_none() && !filtering.is_on() && filtering.has(None));
        filtering.set(Some(&filter(&[ALL_PORTS])), &mut entropy, Time::ZERO);
        assert_eq!(filtering.narrowed, Some(0));
        let before = filtering.gate().unwrap();
        filtering.set(Some(&filter(&[(22, 22)])), &mut entropy, Time::ZERO);
        let after = filtering.gate().unwrap();
        assert!(Arc::ptr_eq(&before.flows, &after.flows) && !Arc::ptr_eq(&before.filter, &after.filter));
    }
}
