//! Admission of unauthenticated TCP connections (fault F13), for the relay's own listener and for a web server beside it.
//!
//! A connection holds a [`Pass`] from the moment it is accepted. It counts for the address that it comes from, and for that address's prefix, until it turns
//! out to be a member's: [`Pass::admit`]. When the table is full, the oldest idle connection of the address with the most connections is evicted. A
//! connection from a trusted proxy counts for the client that the proxy names (fault E19); before that it counts for the proxy, which has a larger share.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::rand::SystemRandom;
use taut_base::{AdmissionDenied, Bounds, Entropy, KeyedHash, Meter, Prefix, Rate, Time, WhenFull, network, site};
use taut_wire::forwarded::ForwardedClient;

use crate::admission_table::{AdmissionGuard, AdmissionTable};
use crate::system::{OsEntropy, clocks, locked};

/// Time from the accept of a connection until a member must be bound on it, 10 s: TLS, HTTP and the handshakes after them take 3 s on a slow mobile network.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// New connections per second of one IPv4 address or IPv6 /64: 200 nodes behind one NAT may reconnect together.
const HOST: Rate = Rate::new(50, 200);

/// New connections per second of one IPv4 /24 or IPv6 /48.
const SITE: Rate = Rate::new(200, 800);

/// Frames per second of unbound connections of one IPv4 address or IPv6 /64. A `bind` costs 0.2 ms, so this is 4 % of a core; a client binds with two frames.
const FRAMES_OF_HOST: Rate = Rate::new(200, 400);

/// The same for one IPv4 /24 or IPv6 /48: a quarter of the binds that the relay processes for all senders that proved their address (docs/spec/relay.md).
const FRAMES_OF_SITE: Rate = Rate::new(500, 1_000);

/// A group of hosts that share a limit: a prefix, or one host with a proxy's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    is_favoured: bool,
    bits: [u8; 8],
}

/// An IPv4 address or an IPv6 /64.
type Host = [u8; 8];

/// The table of unauthenticated connections.
pub struct ConnectionAdmission {
    places: Arc<AdmissionTable<Group, Host>>,
    /// Limits of ordinary addresses, and of addresses with a proxy's share.
    bounds: (Bounds, Bounds),
    trusted: Vec<Prefix>,
    hash: KeyedHash,
    /// New connections.
    openings: Mutex<Pace>,
    /// Frames of connections that are not bound.
    frames: Mutex<Pace>,
}

/// Rate limits by host and by site.
struct Pace {
    hosts: Meter,
    sites: Meter,
}

impl Pace {
    fn new(host: Rate, site: Rate) -> Self {
        Self { hosts: Meter::new(host), sites: Meter::new(site) }
    }

    /// Counts one event of a host of a site. Returns false if either is over its limit.
    fn take(&mut self, host: u64, site: u64, now: Time) -> bool {
        self.hosts.has(host, now) && self.sites.take(site, now) && self.hosts.take(host, now)
    }
}

/// The origin of a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The client's address; the proxy's address if the proxy named no client.
    pub address: IpAddr,
    /// The trusted proxy that named the client.
    pub proxy: Option<IpAddr>,
    /// Whether `address` is a proxy's, so that the client's address is unknown.
    pub is_hidden: bool,
}

impl Source {
    /// Returns the client's address, for use as an endpoint of the client; the unspecified address if it is unknown.
    pub fn seen(&self) -> IpAddr {
        if self.is_hidden { Ipv4Addr::UNSPECIFIED.into() } else { self.address }
    }
}

/// `192.0.2.7`, or `192.0.2.7 via 10.0.0.1` behind a proxy.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.proxy {
            Some(proxy) => write!(f, "{} via {proxy}", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl ConnectionAdmission {
    /// Returns a table for `places` connections. Addresses in `trusted` are proxies whose headers are believed.
    pub fn new(places: usize, trusted: Vec<Prefix>) -> Arc<Self> {
        let mut key = [0; 16];
        OsEntropy(SystemRandom::new()).fill(&mut key);
        let share = |part: usize| (places / part).max(4).min(places);
        // A proxy has half of the table, which its clients share until it names them. A prefix has a quarter, so three others find room beside it.
        let bounds = (Bounds { host: share(8), group: share(4) }, Bounds { host: share(2), group: share(2) });
        Arc::new(Self {
            places: AdmissionTable::new(places, WhenFull::Displace),
            bounds,
            trusted,
            hash: KeyedHash::new(key),
            openings: Mutex::new(Pace::new(HOST, SITE)),
            frames: Mutex::new(Pace::new(FRAMES_OF_HOST, FRAMES_OF_SITE)),
        })
    }

    /// Admits a connection from `peer`. Returns `None` if there is no room for it, or if its address opens connections too fast.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Pass> {
        let peer = peer.to_canonical();
        let now = clocks().now;
        let guard = if self.may_open(peer, now) { self.guard(peer).ok()? } else { return None };
        let state = State { guard: Some(guard), peer, client: peer, proxy: None, until: now + PATIENCE };
        Some(Pass { admission: Arc::clone(self), state: Mutex::new(state) })
    }

    /// Returns the number of unauthenticated connections.
    pub fn count(&self) -> usize {
        self.places.count()
    }

    /// Returns true if this address is a trusted proxy, whose statements about its clients are believed.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|prefix| prefix.contains(address))
    }

    /// Returns true if this address has a proxy's share. Loopback has one without being trusted, because a reverse proxy often runs on the same host.
    pub fn is_favoured(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.is_trusted(address)
    }

    /// Counts a new connection of this address. Returns false if the address opens connections too fast.
    fn may_open(&self, address: IpAddr, now: Time) -> bool {
        self.is_favoured(address) || self.take(&self.openings, address, now)
    }

    fn take(&self, pace: &Mutex<Pace>, address: IpAddr, now: Time) -> bool {
        let (host, site) = (self.hash.of(&network(address)), self.hash.of(&site(address)));
        locked(pace).take(host, site, now)
    }

    fn guard(&self, address: IpAddr) -> Result<AdmissionGuard<Group, Host>, AdmissionDenied> {
        let (group, host, bounds) = self.party(address);
        self.places.enter(group, host, bounds, || ())
    }

    fn party(&self, address: IpAddr) -> (Group, Host, Bounds) {
        let host = network(address);
        if self.is_favoured(address) {
            (Group { is_favoured: true, bits: host }, host, self.bounds.1)
        } else {
            (Group { is_favoured: false, bits: site(address) }, host, self.bounds.0)
        }
    }
}

/// The permit of one unauthenticated connection. Dropping it frees the entry.
pub struct Pass {
    admission: Arc<ConnectionAdmission>,
    state: Mutex<State>,
}

struct State {
    /// `None` after a member was bound on the connection.
    guard: Option<AdmissionGuard<Group, Host>>,
    /// The other end of the connection: proven by TCP, or named by a trusted proxy in the PROXY protocol.
    peer: IpAddr,
    /// The address that the connection counts for: the peer, or the client that the peer named.
    client: IpAddr,
    /// The proxy that named the peer or the client.
    proxy: Option<IpAddr>,
    until: Time,
}

impl Pass {
    /// Returns true if the peer is a trusted proxy, whose headers are believed.
    pub fn believes(&self) -> bool {
        let peer = locked(&self.state).peer;
        self.admission.is_trusted(peer)
    }

    /// Returns true if this address is a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.admission.is_trusted(address)
    }

    /// Takes the source address of a PROXY header. The peer is a proxy that passes the connection on.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if the source has too many connections, or opens them too fast.
    pub fn take_source(&self, source: IpAddr) -> Result<(), AdmissionDenied> {
        if !self.admission.may_open(source, clocks().now) {
            return Err(AdmissionDenied);
        }
        let mut state = locked(&self.state);
        (state.proxy, state.peer) = (Some(state.peer), source);
        self.count_for(&mut state, source)
    }

    /// Takes the client that the headers of a request name, if the peer is a trusted proxy. Returns the origin of the request.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if that client has too many connections.
    pub fn take_claim(&self, claim: ForwardedClient) -> Result<Source, AdmissionDenied> {
        let mut state = locked(&self.state);
        let peer = state.peer;
        if !self.admission.is_trusted(peer) {
            return Ok(Source { address: peer, proxy: state.proxy, is_hidden: false });
        }
        let client = if let ForwardedClient::Client(client) = claim { client } else { peer };
        self.count_for(&mut state, client)?;
        Ok(Source { address: client, proxy: Some(peer).filter(|_| client != peer), is_hidden: client == peer })
    }

    /// Counts the connection as a new one of the client that a proxy has named.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if that client opens connections too fast.
    pub fn open(&self) -> Result<(), AdmissionDenied> {
        let client = locked(&self.state).client;
        if self.admission.may_open(client, clocks().now) { Ok(()) } else { Err(AdmissionDenied) }
    }

    /// Counts a frame of a connection that is not bound. Returns false if the client sends too many.
    pub(crate) fn may_send(&self, now: Time) -> bool {
        let client = locked(&self.state).client;
        self.admission.take(&self.admission.frames, client, now)
    }

    /// Counts the connection for the peer again, after the request of the named client was answered.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if the peer has too many connections.
    pub fn forget_claim(&self) -> Result<(), AdmissionDenied> {
        let mut state = locked(&self.state);
        let peer = state.peer;
        self.count_for(&mut state, peer)
    }

    /// Sets whether a request of the connection is in progress. A busy connection is not evicted.
    pub fn set_busy(&self, is_busy: bool) {
        if let Some(guard) = &locked(&self.state).guard {
            guard.set_idle(!is_busy);
        }
    }

    /// Sets the function that is called when the connection is evicted. Returns false if it was evicted already.
    pub fn on_loss(&self, on_loss: impl FnOnce() + Send + 'static) -> bool {
        locked(&self.state).guard.as_ref().is_none_or(|guard| guard.on_loss(on_loss))
    }

    /// Returns the rest of [`PATIENCE`].
    pub fn remaining(&self) -> Duration {
        locked(&self.state).until.since(clocks().now)
    }

    /// Starts [`PATIENCE`] again, for the next request on the connection.
    pub fn renew(&self) {
        locked(&self.state).until = clocks().now + PATIENCE;
    }

    /// Frees the entry, because a member was bound on the connection.
    pub fn admit(&self) {
        let guard = locked(&self.state).guard.take();
        drop(guard);
    }

    /// Takes an entry again, because the member is bound elsewhere now. The connection has [`PATIENCE`] until a member must be bound on it again. `on_loss` is called
    /// when it is evicted. Returns false if there is no room for it.
    pub fn demote(&self, on_loss: impl FnOnce() + Send + 'static) -> bool {
        let mut state = locked(&self.state);
        state.until = clocks().now + PATIENCE;
        let (group, host, bounds) = self.admission.party(state.client);
        state.guard = self.admission.places.enter(group, host, bounds, on_loss).ok();
        state.guard.is_some()
    }

    /// Returns the address that the connection counts for.
    pub fn client(&self) -> IpAddr {
        locked(&self.state).client
    }

    fn count_for(&self, state: &mut State, client: IpAddr) -> Result<(), AdmissionDenied> {
        state.client = client;
        let (group, host, bounds) = self.admission.party(client);
        state.guard.as_ref().map_or(Ok(()), |guard| guard.assign(group, host, bounds))
    }
}

impl fmt::Debug for ConnectionAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionAdmission")
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn admission(places: usize) -> Arc<ConnectionAdmission> {
        ConnectionAdmission::new(places, vec!["10.0.0.0/8".parse().unwrap()])
    }

    /// Enters a connection from this address. The channel reports its eviction.
    fn enter(admission: &Arc<ConnectionAdmission>, from: &str) -> (Pass, mpsc::Receiver<()>) {
        let pass = admission.enter(ip(from)).unwrap();
        let (sender, lost) = mpsc::channel();
        assert!(pass.on_loss(move || _ = sender.send(())));
        (pass, lost)
    }

    #[test]
    fn fault_f13_an_address_and_a_prefix_have_a_share_and_others_find_room() {
        let admission = admission(64);
        let quiet = enter(&admission, "203.0.113.1");
        let crowd: Vec<_> = (0..20).map(|_| enter(&admission, "192.0.2.1")).collect();
        let lost: Vec<bool> = crowd.iter().map(|(_, lost)| lost.try_recv().is_ok()).collect();
        assert_eq!(lost, (0..20).map(|number| number < 12).collect::<Vec<_>>(), "eight of 64, the latest");
        let neighbours: Vec<_> = (2..12).map(|last| enter(&admission, &format!("192.0.2.{last}"))).collect();
        assert_eq!(admission.count(), 1 + 16, "a quarter of 64 for the prefix");
        assert!(neighbours.iter().all(|(_, lost)| lost.try_recv().is_err()), "the greediest address makes room");
        assert!(quiet.1.try_recv().is_err());
        drop((crowd, neighbours, quiet));
        assert_eq!(admission.count(), 0);
    }

    #[test]
    fn fault_f13_a_host_has_a_64_of_ipv6_and_a_site_a_48() {
        let admission = admission(64);
        let crowd: Vec<_> = (0..20).map(|last| enter(&admission, &format!("2001:db8:0:1::{last}"))).collect();
        assert_eq!(admission.count(), 8);
        let site: Vec<_> = (0..40).map(|part| enter(&admission, &format!("2001:db8:0:{}::1", part + 100))).collect();
        assert_eq!(admission.count(), 16);
        drop((crowd, site));
    }

    #[test]
    fn fault_f13_one_address_opens_so_many_a_second() {
        let admission = admission(1_000);
        let opened = (0..1_000).filter(|_| admission.enter(ip("192.0.2.1")).is_some()).count();
        assert!((200..400).contains(&opened), "{opened}");
        assert!(admission.enter(ip("192.0.2.2")).is_some() && admission.enter(ip("198.51.100.1")).is_some());
        assert!(
            (0..1_000).all(|_| admission.enter(ip("10.0.0.1")).is_some()),
            "a proxy opens as many as it has clients"
        );
    }

    #[test]
    fn fault_f13_an_address_sends_so_many_frames_a_second_before_it_is_bound() {
        let admission = admission(64);
        let (crowd, other) = (enter(&admission, "192.0.2.1"), enter(&admission, "198.51.100.1"));
        let sent = |pass: &Pass, now| (0..2_000).filter(|_| pass.may_send(now)).count();
        let start = clocks().now;
        assert_eq!([sent(&crowd.0, start), sent(&crowd.0, start + Duration::from_secs(1))], [400, 200]);
        let again = enter(&admission, "192.0.2.1");
        assert_eq!(sent(&again.0, start + Duration::from_secs(1)), 0, "another connection brings no other share");
        assert_eq!(sent(&other.0, start), 400);
    }

    #[test]
    fn fault_e19_a_proxys_connections_count_for_its_clients() {
        let admission = admission(64);
        let by_proxy = |client: &str| {
            let (pass, lost) = enter(&admission, "10.0.0.1");
            assert!(pass.believes());
            let source = pass.take_claim(ForwardedClient::Client(ip(client))).unwrap();
            assert_eq!(source, Source { address: ip(client), proxy: Some(ip("10.0.0.1")), is_hidden: false });
            assert_eq!(source.to_string(), format!("{client} via 10.0.0.1"));
            (pass, lost)
        };
        let other = by_proxy("203.0.113.7");
        let crowd: Vec<_> = (0..20).map(|_| by_proxy("192.0.2.1")).collect();
        assert_eq!(crowd.iter().filter(|(_, lost)| lost.try_recv().is_ok()).count(), 12);
        assert!(other.1.try_recv().is_err());
        for claim in [ForwardedClient::Absent, ForwardedClient::Unclear] {
            let (pass, _) = enter(&admission, "10.0.0.1");
            let source = pass.take_claim(claim).unwrap();
            assert!(source.is_hidden && source.address == ip("10.0.0.1") && source.seen().is_unspecified());
        }
        // The connection of a proxy that carries one client's request after another's.
        other.0.forget_claim().unwrap();
        assert_eq!(other.0.client(), ip("10.0.0.1"));
    }

    #[test]
    fn fault_e19_who_is_no_trusted_proxy_claims_in_vain() {
        let admission = admission(64);
        let (pass, _) = enter(&admission, "192.0.2.1");
        let source = pass.take_claim(ForwardedClient::Client(ip("203.0.113.7"))).unwrap();
        assert_eq!(source, Source { address: ip("192.0.2.1"), proxy: None, is_hidden: false });
        // Nor does a client behind a proxy that only passes bytes on.
        let (pass, _) = enter(&admission, "10.0.0.1");
        pass.take_source(ip("192.0.2.1")).unwrap();
        assert!(!pass.believes());
        let source = pass.take_claim(ForwardedClient::Client(ip("203.0.113.7"))).unwrap();
        assert_eq!(source, Source { address: ip("192.0.2.1"), proxy: Some(ip("10.0.0.1")), is_hidden: false });
        // One proxy behind another: the inner one passes bytes on, the outer one's headers count.
        let (pass, _) = enter(&admission, "10.0.0.1");
        pass.take_source(ip("10.0.0.2")).unwrap();
        let source = pass.take_claim(ForwardedClient::Client(ip("203.0.113.7"))).unwrap();
        assert_eq!((source.address, source.proxy), (ip("203.0.113.7"), Some(ip("10.0.0.2"))));
    }

    #[test]
    fn fault_f13_a_member_counts_no_more_and_a_former_one_again() {
        let admission = admission(8);
        let (pass, lost) = enter(&admission, "192.0.2.1");
        pass.admit();
        assert_eq!(admission.count(), 0);
        assert!(pass.on_loss(|| ()), "nothing can be lost");
        let (sender, again) = mpsc::channel();
        assert!(pass.demote(move || _ = sender.send(())) && pass.remaining() > PATIENCE / 2);
        let _crowd: Vec<_> = (0..4).map(|_| enter(&admission, "192.0.2.1")).collect();
        assert!(again.try_recv().is_ok() && lost.try_recv().is_err());
    }
}
