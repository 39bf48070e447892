//! Bridges to relays that UDP does not reach ([`super::web`]): the set of bridges that are needed, and the effects of a bridge that opens or closes.

use std::net::SocketAddr;

use taut_base::{Entropy, RelayId, Time};

use super::Relays;

/// Maximum number of bridges at the same time, four: to the two home relays, and to relays of peers. Each costs a thread and a connection.
const MAX_BRIDGES: usize = 4;

/// A bridge that has to exist: the relay, and the URL of its WebSocket.
pub type BridgeRequest = (RelayId, String);

impl Relays {
    /// Returns the bridges that have to exist from now on, if they are not those that were asked for last. Bridges to our home relays come first.
    pub(super) fn other_bridges(&mut self) -> Option<Vec<BridgeRequest>> {
        let homes = self.homes.clone();
        let others = self.served.keys().filter(|id| !homes.contains(id)).copied().collect::<Vec<_>>();
        let mut wanted: Vec<BridgeRequest> = Vec::new();
        for id in homes.into_iter().chain(others) {
            let Some(served) = self.served.get(&id) else { continue };
            let (Some(url), Some(_)) = (&served.relay.web, &served.client) else { continue };
            if served.web.is_wanted() && wanted.len() < MAX_BRIDGES {
                wanted.push((id, url.clone()));
            }
        }
        let news = wanted != self.bridges;
        self.bridges.clone_from(&wanted);
        news.then_some(wanted)
    }

    /// Notes that the bridge to a relay opened or has a new connection. `place` is its address on this host. The client binds there.
    pub(crate) fn bridge_opened(&mut self, id: RelayId, place: SocketAddr, entropy: &mut impl Entropy, now: Time) {
        let Some(served) = self.served.get_mut(&id) else { return };
        self.moved |= served.web.open != Some(place);
        served.web.open = Some(place);
        let by_udp = served.is_by_udp();
        let Some(client) = served.client.as_mut().filter(|_| !by_udp) else { return };
        // A binding ends with its connection. If there was one, the relay answers that it does not know the client.
        client.handle_move(now, entropy);
        self.drive_client(id, entropy, now);
    }

    /// Notes that the bridge to a relay closed.
    pub(crate) fn bridge_closed(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let Some(served) = self.served.get_mut(&id) else { return };
        let in_use = served.is_bridged();
        self.moved |= served.web.open.take().is_some();
        if let Some(client) = served.client.as_mut().filter(|_| in_use) {
            client.handle_suspicion(now, entropy);
        }
        self.send(id);
    }

    /// Notes that a relay answered a STUN request by UDP. If it is reached through a bridge, the client tries UDP again.
    pub(crate) fn answered_by_udp(&mut self, source: SocketAddr, entropy: &mut impl Entropy, now: Time) {
        let known = self.served.iter_mut().find(|(_, served)| served.relay.endpoints.contains(&source));
        let Some((id, served)) = known.filter(|(_, served)| served.is_bridged()) else { return };
        let id = *id;
        if !served.web.try_udp(now) {
            return;
        }
        served.place = Some(source);
        served.client.as_mut().into_iter().for_each(|client| client.handle_move(now, entropy));
        self.changed
            .extend(self.wanted.keys().copied().chain(self.served.values().flat_map(|served| &served.known).copied()));
        self.send(id);
    }
}
