use std::sync::Arc;

use taut_filter::{FlowTable, PacketFilter, Services};

use super::*;

#[test]
fn the_source_that_was_used_longest_ago_is_forgotten_first() {
    let flows = Arc::new(FlowTable::new([1; 16]));
    let gate = Gate { filter: Arc::new(PacketFilter::default()), flows, services: Services::default() };
    let address = |last: u8| IpAddr::from([10, 0, 0, last]);
    let mut peer = PeerGate::default();
    for last in [1, 2, 3, 4, 1, 5] {
        assert_eq!(peer.source(&gate, address(last)).address, address(last));
    }
    let kept: Vec<IpAddr> = peer.sources.iter().map(|source| source.address).collect();
    assert_eq!(kept, [5, 1, 4, 3].map(address));
}
