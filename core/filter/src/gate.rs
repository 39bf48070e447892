//! The snapshot of the filter that all lanes enforce.

use std::sync::Arc;

use crate::flows::FlowTable;
use crate::rules::PacketFilter;
use crate::services::Services;

/// The filter of a node with what belongs to it. Lanes get it together with their routes, so that no new peer ever meets an old filter (fault G14).
#[derive(Debug)]
pub struct Gate {
    /// The rules.
    pub filter: Arc<PacketFilter>,
    /// The flows that this node began. It outlives changes of the rules.
    pub flows: Arc<FlowTable>,
    /// Decides which flows in progress the host began.
    pub services: Services,
}
