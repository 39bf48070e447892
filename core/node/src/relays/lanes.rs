//! The lanes of this node at its relays. A lane beyond the first is bound at a relay while a peer needs it there, and only where the relay answers by UDP: a bridge is
//! one connection.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, RelayId, SortedMap, Time};
use taut_relay::Client;

use super::Relays;

/// Time for which a lane stays bound after it is not needed any more, 2 s. Until the peer has closed its lanes, too, its packets come there in order. The thread of a
/// lane that is given back ends 3 s after its last use (engine/agent).
const UNBIND_AFTER: Duration = Duration::from_secs(2);

impl Relays {
    /// Sets the number of lanes that have to be bound at the relay at each address; 1 at an address that is not named.
    pub(crate) fn set_lanes(&mut self, lanes: SortedMap<SocketAddr, u8>, entropy: &mut impl Entropy, now: Time) {
        self.lanes = lanes;
        for id in self.served.keys().copied().collect::<Vec<_>>() {
            self.lanes_turn(id, entropy, now);
        }
    }

    /// Returns true if lanes beyond the first can be bound at the relay that is in use at this address.
    pub(crate) fn allows_lanes(&self, place: SocketAddr) -> bool {
        let served = self.served.values().find(|served| served.place == Some(place) && served.is_by_udp());
        served.and_then(|served| served.client.as_ref()).is_some_and(Client::allows_lanes)
    }

    /// Returns true if this lane is bound at the relay that is in use at this address.
    pub(crate) fn has_lane(&self, place: SocketAddr, lane: LaneId) -> bool {
        let served = self.served.values().find(|served| served.place == Some(place));
        served.and_then(|served| served.client.as_ref()).is_some_and(|client| client.has_lane(lane.0))
    }

    /// Has a relay's client bind as many lanes as are needed.
    pub(super) fn lanes_turn(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let Some(served) = self.served.get_mut(&id) else { return };
        let place = served.place.filter(|_| served.is_by_udp());
        let wanted = place.and_then(|place| self.lanes.get(&place)).copied().unwrap_or(1);
        let Some(client) = served.client.as_mut() else {
            (served.lanes, served.fewer_lanes) = (1, None);
            return;
        };
        if wanted >= served.lanes {
            served.fewer_lanes = None;
        }
        let unbinds = wanted < served.lanes && now >= *served.fewer_lanes.get_or_insert(now + UNBIND_AFTER);
        if wanted > served.lanes || unbinds {
            (served.lanes, served.fewer_lanes) = (wanted, None);
            client.set_lanes(wanted, now, entropy);
            self.send(id);
        }
    }
}
