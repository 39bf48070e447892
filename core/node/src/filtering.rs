//! The filter of the node's map, and the state that outlives changes of the filter: flows, service ports, and the time of the last change.

use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// The second of the latest change of the rules.
    changed: Option<u32>,
}

impl Filtering {
    /// Takes the filter of a new map.
    pub(crate) fn set(&mut self, filter: Option<&Filter>, entropy: &mut impl Entropy, now: Time) {
        if self.has(filter) {
            return;
        }
        if self.has_begun {
            self.changed = Some(seconds(now));
        }
        (self.known, self.has_begun) = (filter.map(hash_of), true);
        self.filter = filter.map(|filter| Arc::new(PacketFilter::new(filter)));
        if self.filter.is_some() && self.flows.is_none() {
            let mut key = [0; 16];
            entropy.fill(&mut key);
            self.flows = Some(Arc::new(FlowTable::new(key)));
        }
    }

    /// Returns true if this is the filter in force.
    pub(crate) fn has(&self, filter: Option<&Filter>) -> bool {
        self.has_begun && filter.map(hash_of) == self.known
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
        Some(Arc::new(Gate { filter, flows, services: Services::new(self.ports.clone(), self.changed) }))
    }
}

fn hash_of(filter: &Filter) -> u64 {
    let mut hasher = DefaultHasher::new();
    filter.rules.hash(&mut hasher);
    hasher.finish()
}
