use super::*;

const NOW: Time = Time(1_000_000_000);
const PORT: u16 = 8288;

struct Net {
    net: Internet,
    server: HostId,
}

fn net() -> Net {
    let mut net = Internet::new(1);
    let server = net.server();
    Net { net, server }
}

impl Net {
    fn end(&self, host: HostId) -> SocketAddrV4 {
        SocketAddrV4::new(self.net.address(host), PORT)
    }

    /// Returns the external endpoint of `host` as the server sees it.
    fn seen(&mut self, host: HostId) -> Result<SocketAddrV4, Lost> {
        let server = self.end(self.server);
        self.net.carry(host, PORT, server, NOW).map(|delivery| delivery.source)
    }

    /// Sends the server's answer.
    fn answer(&mut self, to: SocketAddrV4) -> Result<HostId, Lost> {
        self.net.carry(self.server, PORT, to, NOW).map(|delivery| delivery.to)
    }
}

#[test]
fn every_host_that_may_send_udp_reaches_a_server_and_is_answered() {
    for kind in Kind::ALL {
        let mut net = net();
        let host = net.net.behind(kind);
        let Ok(seen) = net.seen(host) else {
            assert!(!kind.traits().udp, "{kind:?}");
            continue;
        };
        assert_eq!(net.answer(seen), Ok(host), "{kind:?}");
        assert_eq!(seen == net.end(host), !kind.traits().translates());
    }
}

#[test]
fn a_carrier_translates_twice() {
    let mut net = net();
    let host = net.net.behind(Kind::Carrier);
    let [home, carrier] = [net.net.nat(host), net.net.carrier(host)].map(|id| net.net.router(id.unwrap()).external());
    assert_eq!(home.octets()[..2], [100, 64]);
    assert_eq!(*net.seen(host).unwrap().ip(), carrier);
}

#[test]
fn homes_have_equal_addresses_and_do_not_meet_by_them() {
    let mut net = net();
    let (one, two) = (net.net.behind(Kind::PortRestricted), net.net.behind(Kind::PortRestricted));
    let there = net.end(two);
    assert_eq!(net.end(one), there);
    assert_eq!(net.net.carry(one, PORT, there, NOW).map(|delivery| delivery.to), Ok(one));
}

#[test]
fn hairpin_shows_the_external_address_where_there_is_one() {
    for (kind, turned) in [(Kind::Hairpin, true), (Kind::PortRestricted, false)] {
        let mut net = net();
        let (one, two) = net.net.pair(kind, kind, Place::Isolated);
        let (seen_one, seen_two) = (net.seen(one).unwrap(), net.seen(two).unwrap());
        let arrived = net.net.carry(one, PORT, seen_two, NOW);
        assert_eq!(arrived.map(|delivery| (delivery.to, delivery.source)).ok(), turned.then_some((two, seen_one)));
    }
}

#[test]
fn a_hole_swallows_one_way_and_spares_servers() {
    let mut net = net();
    let (one, two) = net.net.pair(Kind::Open, Kind::Open, Place::Apart);
    let (end_one, end_two) = (net.end(one), net.end(two));
    net.net.set_hole(net.net.nat(one).unwrap(), Hole::In);
    assert!(net.net.carry(one, PORT, end_two, NOW).is_ok());
    assert_eq!(net.net.carry(two, PORT, end_one, NOW), Err(Lost::Hole));
    assert_eq!(net.answer(end_one), Ok(one));
    net.net.set_hole(net.net.nat(one).unwrap(), Hole::Cut);
    assert_eq!((net.answer(end_one), net.seen(one)), (Err(Lost::Hole), Err(Lost::Hole)));
    net.net.set_hole(net.net.nat(one).unwrap(), Hole::None);
    assert!(net.net.carry(two, PORT, end_one, NOW).is_ok());
}

#[test]
fn a_host_that_moves_is_reached_there_and_not_here() {
    let mut net = net();
    let (one, two) = net.net.pair(Kind::PortRestricted, Kind::FullCone, Place::Apart);
    let before = net.seen(one).unwrap();
    net.net.move_host(one, two);
    let after = net.seen(one).unwrap();
    assert_eq!((net.answer(before).ok(), net.answer(after)), (None, Ok(one)));
    let at_home = net.end(one);
    assert_eq!(net.net.carry(two, PORT, at_home, NOW).map(|delivery| delivery.to), Ok(one));
}
