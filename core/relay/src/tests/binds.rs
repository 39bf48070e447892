//! Shares of a relay's limits: pending binds, bindings, channels, and bind requests per second (faults F15, F16).

use super::*;

/// Returns a different address for each number.
fn distinct_address(number: u32) -> ClientAddress {
    let [_, b, c, d] = number.to_be_bytes();
    ClientAddress::Udp(SocketAddr::from(([10, b, c, d], 9)))
}

/// Returns the credentials of a member of another network.
fn other_network(number: u8) -> Credentials {
    let other = Terms { network: NetworkTag([2; 16]), ..terms(number) };
    Credentials { bind: bind_key(number), ticket: Ticket::sign(&other, &coordinator(1)), numbered: None }
}

#[test]
fn fault_f15_a_member_that_floods_binds_does_not_lock_out_others() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    // 1,200 binds from as many sources within 6 s: more than the table of pending binds holds, and each bind stays pending for 10 s.
    for number in 0..1_200 {
        let bind = bind_of(&credentials(9), &mut net.random, net.now);
        let _ = net.receive(distinct_address(number), &bind);
        net.now = net.now + Duration::from_millis(5);
    }
    for (number, credentials) in
        [(1, credentials(1)), (2, other_network(2)), (3, credentials(3)), (4, other_network(4))]
    {
        let client = net.join(&credentials);
        net.run(Duration::from_millis(100));
        assert!(net.clients[client].1.is_ready(), "client {number}");
    }
}

#[test]
fn fault_f16_many_ports_of_one_address_use_up_only_the_share_of_that_address() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let flood = |port: u16| ClientAddress::Udp(SocketAddr::from(([203, 0, 113, 9], port)));
    let mut proven = Vec::new();
    for port in 1_000..1_600 {
        net.flood_until_cookies_are_required();
        proven.push((flood(port), net.proven_bind(flood(port), &credentials(9))));
    }
    let honest = (address(1), net.proven_bind(address(1), &credentials(1)));
    net.now = net.now + Duration::from_secs(2);
    for _ in 0..10 {
        for (from, bind) in &proven {
            let _ = net.receive(*from, bind);
        }
    }
    net.flood_until_cookies_are_required();
    assert_eq!(net.receive(honest.0, &honest.1), Ok(()));
}

/// Replays several recorded binds of a member: each from another address, and all from the member's own address.
#[test]
fn fault_f15_replayed_binds_neither_end_nor_block_the_current_bind() {
    for from_own_address in [false, true] {
        let mut net = Net::new(RelayLimits::DEFAULT);
        let recorded: Vec<_> = (0..8)
            .map(|_| {
                net.now = net.now + Duration::from_secs(1);
                bind_of(&credentials(1), &mut net.random, net.now)
            })
            .collect();
        let mut client = new_client(&credentials(1), net.now + Duration::from_secs(1));
        let home = address(50);
        net.now = net.now + Duration::from_secs(1);
        let mut number = 0;
        let mut replay = |net: &mut Net| {
            for bind in &recorded {
                number += 1;
                let from = if from_own_address { home } else { distinct_address(number) };
                let _ = net.receive(from, bind);
            }
        };
        replay(&mut net);
        client.handle_timeout(net.now, &mut net.random);
        let bind = client.next_datagram().unwrap();
        let clocks = net.clocks();
        net.server.handle_frame(home, None, bind.as_bytes(), clocks, &mut net.random).unwrap();
        let bound = net.next_reply().unwrap();
        assert_eq!(bound.address, home);
        // Replays while the answer is on its way.
        replay(&mut net);
        client.handle_datagram(bound.as_bytes(), net.now, &mut net.random);
        let ping = client.next_datagram().unwrap();
        net.receive(home, ping.as_bytes()).unwrap();
        assert_eq!((net.server.tally().clients, net.forward.client_at(&home)), (1, Some(0)));
        // Replays after the binding change nothing, and none of them becomes pending.
        replay(&mut net);
        assert!(net.server.tally().stale > 0);
        assert_eq!(net.forward.client_at(&home), Some(0));
    }
}

/// Copies of a member's current bind arrive before the original, from more addresses than one member may have pending binds at. The member then proves its
/// address by a cookie, and a proven bind has priority over unproven ones.
#[test]
fn fault_f15_a_bind_that_copies_overtook_needs_a_cookie() {
    let mut net = Net::with(&[]);
    let number = net.join(&credentials(1));
    let (now, home) = (net.now, net.clients[number].0);
    net.clients[number].1.handle_timeout(now, &mut net.random);
    let bind = net.clients[number].1.next_datagram().unwrap();
    for number in 0..20 {
        let _ = net.receive(distinct_address(number), bind.as_bytes());
    }
    assert_eq!(net.receive(home, bind.as_bytes()), Err(Refused::CookieAsked));
    net.settle();
    assert_eq!(net.forward.client_at(&home), Some(0));
}

/// The binds of release 0.1.0 carry no time. All replayed binds from one address share one pending entry.
#[test]
fn fault_f15_replayed_binds_of_an_old_client_from_one_address_do_not_lock_it_out() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let recorded: Vec<_> = (0..20).map(|_| old_bind_of(&credentials(1), &mut net)).collect();
    let number = net.join(&credentials(1));
    net.clients[number].1 = old_client(&credentials(1), net.now);
    let replay = |net: &mut Net| {
        for (port, bind) in (1..).zip(&recorded) {
            let _ = net.receive(ClientAddress::Udp(SocketAddr::from(([203, 0, 113, 9], port))), bind);
        }
    };
    replay(&mut net);
    let (now, home) = (net.now, net.clients[number].0);
    net.clients[number].1.handle_timeout(now, &mut net.random);
    let bind = net.clients[number].1.next_datagram().unwrap();
    net.held = Some(Vec::new());
    net.receive(home, bind.as_bytes()).unwrap();
    replay(&mut net);
    let held = net.held.take().unwrap();
    held.iter().for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.settle();
    assert_eq!(net.forward.client_at(&home), Some(0));
}

fn old_bind_of(credentials: &Credentials, net: &mut Net) -> Vec<u8> {
    let mut client = old_client(credentials, net.now);
    client.handle_timeout(net.now, &mut net.random);
    client.next_datagram().unwrap().as_bytes().to_vec()
}

/// A client sends its bind over IPv4, IPv6 and WebSocket. The first confirmed bind is used, and the relay drops the other pending ones.
#[test]
fn fault_f15_the_first_bind_that_is_confirmed_ends_the_others() {
    let mut net = Net::with(&[]);
    let mut client = new_client(&credentials(1), net.now);
    client.handle_timeout(net.now, &mut net.random);
    let bind = client.next_datagram().unwrap();
    let six = ClientAddress::Udp("[2001:db8::1]:9".parse().unwrap());
    let mut bounds = Vec::new();
    for from in [address(1), six, ClientAddress::Stream(3)] {
        let clocks = net.clocks();
        net.server.handle_frame(from, None, bind.as_bytes(), clocks, &mut net.random).unwrap();
        bounds.push(net.next_reply().unwrap().as_bytes().to_vec());
    }
    assert!(bounds[0] != bounds[1] && bounds[1] != bounds[2]);
    // The second answer arrives first, and the client confirms it.
    client.handle_datagram(&bounds[1], net.now, &mut net.random);
    let ping = client.next_datagram().unwrap();
    net.receive(six, ping.as_bytes()).unwrap();
    assert_eq!(net.forward.client_at(&six), Some(0));
    assert_eq!(
        net.server.poll_timeout().map(|due| due > net.now + Duration::from_secs(11)),
        Some(true),
        "no bind is pending"
    );
}

/// Returns a relay with a limit of four clients.
fn with_four_places(limits: RelayLimits) -> Net {
    Net::new(RelayLimits { clients: 4, ..limits })
}

#[test]
fn fault_f15_clients_of_a_network_that_fills_a_relay_are_evicted_for_another_network() {
    let mut net = with_four_places(RelayLimits::DEFAULT);
    for number in 1..=5 {
        net.join(&credentials(number));
        net.run(Duration::from_secs(1));
    }
    assert_eq!(
        (net.server.tally().clients, net.server.tally().evicted),
        (4, 0),
        "a fifth client of the same network is refused and evicts none"
    );
    for number in 11..=13 {
        net.join(&other_network(number));
        net.run(Duration::from_secs(1));
    }
    let ready = |net: &Net| net.clients.iter().map(|(_, client, ..)| client.is_ready()).collect::<Vec<_>>();
    assert_eq!(
        ready(&net),
        [true, true, false, false, false, true, true, false],
        "each network keeps its two oldest clients"
    );
    assert_eq!(net.server.tally().evicted, 2);
    net.run(Duration::from_secs(300));
    assert_eq!(ready(&net), [true, true, false, false, false, true, true, false], "no further client is evicted");
    assert_eq!(net.server.tally().evicted, 2);
}

#[test]
fn fault_f15_pending_binds_of_a_network_above_its_share_are_evicted_for_another_network() {
    let mut net = Net::new(RelayLimits { pending: 8, ..RelayLimits::DEFAULT });
    for number in 1..=40 {
        let bind = bind_of(&credentials(number), &mut net.random, net.now);
        let _ = net.receive(distinct_address(u32::from(number)), &bind);
    }
    // A bind of another network becomes pending, and the first network continues its flood.
    net.held = Some(Vec::new());
    let honest = net.join(&other_network(100));
    net.settle();
    let now = net.now;
    net.clients[honest].1.handle_timeout(now, &mut net.random);
    net.settle();
    for number in 41..=80 {
        let bind = bind_of(&credentials(number), &mut net.random, net.now);
        let _ = net.receive(distinct_address(u32::from(number)), &bind);
    }
    let held = net.held.take().unwrap();
    held.iter().for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.settle();
    assert_eq!(net.server.tally().clients, 1, "the bind of the other network was still pending when it was confirmed");
}

#[test]
fn fault_f15_channels_of_a_network_above_its_share_are_evicted_for_another_network() {
    let mut net = Net::new(RelayLimits { all_channels: 10, ..RelayLimits::DEFAULT });
    for number in 1..=3 {
        net.join(&credentials(number));
    }
    let (a, b) = (net.join(&other_network(11)), net.join(&other_network(12)));
    net.run(Duration::from_millis(100));
    net.open(0, 2);
    for peer in 20..40 {
        net.open(2, peer);
    }
    assert!(
        net.events(2).contains(&RelayEvent::Refused { peer: node_key(39) }),
        "a network cannot open more channels than the relay has, even if it is alone"
    );
    net.open(a, 12);
    net.assert_reach((a, 11), (b, 12));
    assert_eq!(net.server.tally().channels_evicted, 2);
    // The evicted channels belonged to the client with the most, not to other clients of its network.
    net.assert_reach((0, 1), (1, 2));
    // When all clients leave, no client and no channel remains.
    for client in 0..net.clients.len() {
        net.clients[client].1.leave();
    }
    net.settle();
    assert_eq!((net.server.tally().clients, net.server.tally().channels), (0, 0));
}

/// Clients of networks of random size join and leave: no table exceeds its limit, and no client of a network within its fair share is evicted.
#[test]
fn fault_f15_a_network_within_its_fair_share_keeps_its_clients() {
    for seed in taut_testkit::seeds(5, 200) {
        let mut net = Net::new(RelayLimits { clients: 12, ..RelayLimits::DEFAULT });
        let mut random = Seeded::new(seed);
        let mut of: Vec<u8> = Vec::new();
        for number in 0..60_u8 {
            let network = [0, 0, 0, 1, 1, 2][random.below(6) as usize];
            let terms = Terms { network: NetworkTag([network; 16]), ..terms(number) };
            let ticket = Ticket::sign(&terms, &coordinator(1));
            let before: Vec<bool> = net.clients.iter().map(|(_, client, ..)| client.is_ready()).collect();
            let sizes = |ready: &[bool], of: &[u8]| {
                [0, 1, 2].map(|network| ready.iter().zip(of).filter(|(ready, own)| **ready && **own == network).count())
            };
            let held = sizes(&before, &of);
            net.join(&Credentials { bind: bind_key(number), ticket, numbered: None });
            of.push(network);
            // 1 ms suffices for the new client to bind, and is too short for refused clients to try again.
            net.run(Duration::from_millis(1));
            let after: Vec<bool> = net.clients.iter().map(|(_, client, ..)| client.is_ready()).collect();
            assert!(net.server.tally().clients <= 12);
            let networks = (0..3).filter(|other| held[*other] > 0 || *other == usize::from(network)).count();
            for (client, (was, is)) in before.iter().zip(&after).enumerate() {
                let own = held[usize::from(of[client])];
                assert!(!was || *is || own * networks > 12, "client {client} of a network with {own} of {networks}");
            }
            if random.below(4) == 0 {
                let leaver = random.below(u32::from(number) + 1) as usize;
                net.clients[leaver].1.leave();
                net.settle();
            }
        }
    }
}

#[test]
fn fault_f15_repeated_binds_of_one_member_make_one_binding_a_second() {
    let mut net = Net::with(&[2]);
    let first = net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    net.open(0, 1);
    net.events(0);
    for _ in 0..100 {
        net.clients[first].1 = new_client(&credentials(1), net.now);
        net.clients[first].0 = distinct_address(net.random.below(1 << 20));
        net.run(Duration::from_millis(50));
    }
    // A burst of 20, and one for each of five seconds. Each new binding is announced to the peer that opened a channel to the member.
    assert!((20..=28).contains(&net.server.tally().bound), "{}", net.server.tally().bound);
}

#[test]
fn fault_f16_connections_from_one_address_share_one_bind_rate() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let (flood, honest) = ("203.0.113.9".parse().unwrap(), "198.51.100.7".parse().unwrap());
    let foreign = Credentials { ticket: Ticket::sign(&terms(250), &coordinator(9)), ..credentials(250) };
    let bind = bind_of(&foreign, &mut net.random, net.now);
    let mut passed = 0;
    for number in 0..3_000 {
        let clocks = net.clocks();
        let outcome =
            net.server.handle_frame(ClientAddress::Stream(number), Some(flood), &bind, clocks, &mut net.random);
        passed += u32::from(outcome != Err(Refused::BindRate));
    }
    assert_eq!(passed, 200);
    let bind = bind_of(&credentials(1), &mut net.random, net.now);
    let clocks = net.clocks();
    let outcome = net.server.handle_frame(ClientAddress::Stream(9_000), Some(honest), &bind, clocks, &mut net.random);
    assert_eq!(outcome, Ok(()));
}

#[test]
fn fault_f16_the_addresses_of_one_prefix_share_one_bind_rate_and_all_nodes_behind_a_carriers_nat_are_bound() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let foreign = Credentials { ticket: Ticket::sign(&terms(250), &coordinator(9)), ..credentials(250) };
    let bind = bind_of(&foreign, &mut net.random, net.now);
    let take = |net: &mut Net, number: u64, from: std::net::IpAddr| {
        let clocks = net.clocks();
        net.server.handle_frame(ClientAddress::Stream(number), Some(from), &bind, clocks, &mut net.random)
            != Err(Refused::BindRate)
    };
    for (prefix, most) in [("203.0.113.", 400), ("2001:db8:1:", 400)] {
        let mut passed = 0;
        for number in 0..2_000_u64 {
            let last = number % 250;
            let text = if most == 400 && prefix.contains(':') {
                format!("{prefix}{last:x}::1")
            } else {
                format!("{prefix}{last}")
            };
            passed += usize::from(take(&mut net, number, text.parse().unwrap()));
        }
        assert_eq!(passed, most, "{prefix}");
        net.now = net.now + Duration::from_secs(10);
    }
    // 1,000 nodes behind one address; each unbound node tries again every second.
    let (nat, mut waiting) = ("192.0.2.77".parse().unwrap(), 1_000);
    for second in 0..10 {
        waiting -= (0..waiting).filter(|number| take(&mut net, 10_000 * (second + 1) + number, nat)).count() as u64;
        net.now = net.now + Duration::from_secs(1);
    }
    assert_eq!(waiting, 0);
}

#[test]
fn fault_f16_one_address_does_not_use_up_the_hints_for_other_addresses() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    net.restart();
    for number in 0..6_000_u16 {
        let from = ClientAddress::Udp(SocketAddr::from(([203, 0, 113, 9], 1_000 + number)));
        let _ = net.receive(from, &carried(0x70, b"nobody"));
    }
    let from = net.clients[0].0;
    let _ = net.receive(from, &carried(id, b"lost"));
    net.run(Duration::from_millis(5));
    assert!(net.clients[0].1.is_ready() && net.server.tally().clients == 1, "the client got its hint and bound again");
}
