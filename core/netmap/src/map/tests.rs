use super::*;
use crate::naming::SplitDomain;

fn peer(number: u8) -> Peer {
    Peer {
        id: NodeId(u64::from(number)),
        name: format!("n{number}"),
        key: PublicKey([number; 32]),
        addresses: vec![IpAddr::from([100, 64, 0, number])],
        endpoints: vec![SocketAddr::from(([10, 0, 0, number], 8288))],
        relays: Vec::new(),
        native: false,
        routes: Vec::new(),
    }
}

fn map() -> NetworkMap {
    NetworkMap {
        version: 5,
        network: NetworkInfo {
            name: String::from("default"),
            ipv4: "100.64.0.0/10".parse().unwrap(),
            ipv6: "fd12:3456:789a::/64".parse().unwrap(),
            naming: Naming::default(),
        },
        me: LocalMember {
            id: NodeId(1),
            name: String::from("n1"),
            key: PublicKey([1; 32]),
            addresses: vec![IpAddr::from([100, 64, 0, 1]), "fd12:3456:789a::1".parse().unwrap()],
            routes: Vec::new(),
        },
        peers: [peer(2), peer(3)].into_iter().map(|peer| (peer.id, peer)).collect(),
        relays: Vec::new(),
        filter: None,
    }
}

fn delta() -> Delta {
    Delta {
        from: 5,
        to: 6,
        me: None,
        upserts: Vec::new(),
        removes: Vec::new(),
        relays: None,
        filter: None,
        naming: None,
    }
}

#[test]
fn survives_json_with_fields_from_the_future() {
    let mut json = serde_json::to_value(map()).unwrap();
    json["colour"] = "blue".into();
    json["peers"][0]["mood"] = 7.into();
    assert_eq!(serde_json::from_value::<NetworkMap>(json).unwrap(), map());
}

#[test]
fn a_delta_changes_adds_and_removes() {
    let mut moved = peer(2);
    moved.endpoints.clear();
    let delta = Delta { upserts: vec![moved.clone(), peer(4)], removes: vec![NodeId(3)], ..delta() };
    let next = map().apply(&delta).unwrap();
    assert_eq!(next.version, 6);
    assert_eq!(next.peers.keys().copied().collect::<Vec<_>>(), [NodeId(2), NodeId(4)]);
    assert_eq!(next.peers[&NodeId(2)], moved);
}

#[test]
fn a_delta_for_another_version_is_refused() {
    let refused = map().apply(&Delta { from: 4, ..delta() });
    assert_eq!(refused, Err(MapError::WrongVersion { have: 5, from: 4 }));
    assert!(map().apply(&Delta { to: 4, ..delta() }).is_err());
}

#[test]
fn fault_e17_hostile_maps_are_refused() {
    let with = |change: fn(&mut NetworkMap)| {
        let mut map = map();
        change(&mut map);
        map.check()
    };
    fn second(map: &mut NetworkMap) -> &mut Peer {
        map.peers.get_mut(&NodeId(2)).unwrap()
    }
    assert_eq!(map().check(), Ok(()));
    let outside = IpAddr::from([8, 8, 8, 8]);
    assert_eq!(
        with(|map| second(map).addresses = vec![[8, 8, 8, 8].into()]),
        Err(MapError::AddressOutside(NodeId(2), outside))
    );
    assert!(matches!(
        with(|map| {
            let mine = map.me.addresses.clone();
            second(map).addresses = mine;
        }),
        Err(MapError::SameAddress(NodeId(2), _))
    ));
    assert_eq!(
        with(|map| {
            let mine = map.me.key;
            second(map).key = mine;
        }),
        Err(MapError::SameKey(NodeId(2)))
    );
    assert!(matches!(
        with(|map| second(map).addresses = vec![[100, 64, 0, 2].into(); 2]),
        Err(MapError::SameAddress(NodeId(2), _))
    ));
    assert_eq!(with(|map| second(map).key = PublicKey([3; 32])), Err(MapError::SameKey(NodeId(3))), "the later one");
    assert!(matches!(
        with(|map| second(map).addresses.push([100, 64, 0, 3].into())),
        Err(MapError::SameAddress(NodeId(3), _))
    ));
    assert_eq!(with(|map| second(map).addresses.clear()), Err(MapError::NoAddress(NodeId(2))));
    assert_eq!(with(|map| second(map).name = String::from("../etc")), Err(MapError::BadName(NodeId(2))));
    // `taut hosts` prints both names on one line.
    assert_eq!(with(|map| map.network.name = String::from("x\n127.0.0.1 bank")), Err(MapError::BadNetworkName));
    assert_eq!(with(|map| second(map).id = NodeId(1)), Err(MapError::SameId(NodeId(2))));
    assert_eq!(
        with(|map| second(map).endpoints = vec![([1, 1, 1, 1], 1).into(); 33]),
        Err(MapError::TooManyEndpoints(NodeId(2)))
    );
    fn nine() -> Vec<IpAddr> {
        (0..9).map(|last| [100, 64, 9, last].into()).collect()
    }
    assert_eq!(with(|map| second(map).addresses = nine()), Err(MapError::TooManyAddresses(NodeId(2))));
    assert_eq!(with(|map| map.me.addresses = nine()), Err(MapError::TooManyAddresses(NodeId(1))));
    for prefix in ["0.0.0.0/0", "8.0.0.0/8", "100.0.0.0/8", "127.0.0.0/8"] {
        let mut map = map();
        map.network.ipv4 = prefix.parse().unwrap();
        assert!(matches!(map.check(), Err(MapError::BadPrefix(_))), "{prefix}");
    }
    for prefix in ["::/0", "2001:db8::/48", "fd00::/8", "fe80::/64"] {
        let mut map = map();
        map.network.ipv6 = prefix.parse().unwrap();
        assert!(matches!(map.check(), Err(MapError::BadPrefix(_))), "{prefix}");
    }
}

#[test]
fn one_number_for_two_nodes_is_no_map() {
    let mut json = serde_json::to_value(map()).unwrap();
    json["peers"][1]["id"] = 2.into();
    assert!(serde_json::from_value::<NetworkMap>(json).is_err());
}

#[test]
fn fault_e20_a_reserved_name_costs_its_node_the_name_and_nobody_the_map() {
    let mut named = map();
    named.peers.get_mut(&NodeId(2)).unwrap().name = String::from("localhost");
    named.peers.get_mut(&NodeId(3)).unwrap().name = String::from("node-2");
    named.me.name = String::from("wpad");
    assert_eq!(named.check(), Ok(()));
    let mut shown = named.clone();
    shown.replace_reserved_names();
    assert_eq!(shown.me.name, "node-1");
    assert_eq!(shown.peers[&NodeId(2)].name, "node-2-2", "another node has that name");
    assert_eq!(shown.peers[&NodeId(3)].name, "node-2");
    assert_eq!(shown.check(), Ok(()));
    // Nothing else differs, and a delta applies to the map with the placeholder.
    let mut back = shown.clone();
    back.me.name.clone_from(&named.me.name);
    back.peers.get_mut(&NodeId(2)).unwrap().name.clone_from(&named.peers[&NodeId(2)].name);
    assert_eq!(back, named);
    let mut next = shown.apply(&Delta { upserts: vec![named.peers[&NodeId(2)].clone()], ..delta() }).unwrap();
    next.replace_reserved_names();
    assert_eq!((next.version, &next.peers), (6, &shown.peers));
    let mut plain = map();
    plain.replace_reserved_names();
    assert_eq!(plain, map());
}

#[test]
fn fault_e17_names_are_no_reason_to_refuse_a_map() {
    let mut map = map();
    assert!(!serde_json::to_string(&map).unwrap().contains("naming"), "older nodes and coordinators see no new field");
    let hostile = SplitDomain { domain: String::from("\0"), servers: Vec::new() };
    let naming = Naming { base_domain: Some(String::from("com")), domains: vec![hostile; 5_000], ..Naming::default() };
    map.network.naming = naming;
    assert_eq!((map.network.zone(&[]), map.check()), (String::from("default.taut.internal"), Ok(())));
    let read: NetworkMap = serde_json::from_value(serde_json::to_value(&map).unwrap()).unwrap();
    assert_eq!(read, map);
}

#[test]
fn a_delta_replaces_the_names_that_the_operator_chose() {
    let naming = Naming { base_domain: Some(String::from("corp.example")), ..Naming::default() };
    let next = map().apply(&Delta { naming: Some(naming.clone()), ..delta() }).unwrap();
    assert_eq!(next.network.zone(&[]), "default.corp.example");
    assert_eq!(
        next.apply(&Delta { from: 6, to: 7, ..delta() }).unwrap().network.naming,
        naming,
        "and others keep them"
    );
    let read: Delta = serde_json::from_str(r#"{"from":5,"to":6}"#).unwrap();
    assert_eq!(read.naming, None, "from a coordinator that knows none");
}
