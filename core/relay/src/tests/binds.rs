//! Who takes up a relay's places: pending binds, bindings, channels, and the work of binding (faults F15, F16).

use super::*;

/// Somewhere else with each number.
fn anywhere(number: u32) -> ClientAddress {
    let [_, b, c, d] = number.to_be_bytes();
    ClientAddress::Udp(SocketAddr::from(([10, b, c, d], 9)))
}

/// Credentials of a member of another network.
fn stranger(number: u8) -> Credentials {
    let other = Terms { network: NetworkTag([2; 16]), ..terms(number) };
    Credentials { bind: bind_key(number), ticket: Ticket::sign(&other, &coordinator(1)), numbered: None }
}

#[test]
fn fault_f15_one_member_that_begins_binds_without_end_keeps_nobody_out() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    // Within 6 s, from 1,200 sources: more than there is room for in the 10 s that a bind waits.
    for number in 0..1_200 {
        let bind = bind_of(&credentials(9), &mut net.random, net.now);
        let _ = net.receive(anywhere(number), &bind);
        net.now = net.now + Duration::from_millis(5);
    }
    for (number, credentials) in [(1, credentials(1)), (2, stranger(2)), (3, credentials(3)), (4, stranger(4))] {
        let client = net.join(&credentials);
        net.run(Duration::from_millis(100));
        assert!(net.clients[client].1.is_ready(), "client {number}");
    }
}

#[test]
fn fault_f16_thousands_of_ports_of_one_address_use_up_that_addresss_share_alone() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let flood = |port: u16| ClientAddress::Udp(SocketAddr::from(([203, 0, 113, 9], port)));
    let mut proven = Vec::new();
    for port in 1_000..1_600 {
        net.ask_for_cookies();
        proven.push((flood(port), net.proven_bind(flood(port), &credentials(9))));
    }
    let honest = (address(1), net.proven_bind(address(1), &credentials(1)));
    net.now = net.now + Duration::from_secs(2);
    for _ in 0..10 {
        for (from, bind) in &proven {
            let _ = net.receive(*from, bind);
        }
    }
    net.ask_for_cookies();
    assert_eq!(net.receive(honest.0, &honest.1), Ok(()));
}

/// Whatever was recorded of a member: several of its binds, sent again and again from many addresses, its own one among them.
#[test]
fn fault_f15_recorded_binds_neither_end_nor_block_the_one_that_is_made_now() {
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
                let from = if from_own_address { home } else { anywhere(number) };
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
        // While the answer is on its way.
        replay(&mut net);
        client.handle_datagram(bound.as_bytes(), net.now, &mut net.random);
        let ping = client.next_datagram().unwrap();
        net.receive(home, ping.as_bytes()).unwrap();
        assert_eq!((net.server.tally().clients, net.forward.client_at(&home)), (1, Some(0)));
        // Later ones change nothing either, and wait nowhere.
        replay(&mut net);
        assert!(net.server.tally().stale > 0);
        assert_eq!(net.forward.client_at(&home), Some(0));
    }
}

/// Copies of the very bind that a member makes now, from more addresses than it may have binds at, all before the original: it proves its address, and goes
/// before those that do not.
#[test]
fn fault_f15_copies_that_overtake_a_bind_cost_it_a_cookie() {
    let mut net = Net::with(&[]);
    let number = net.join(&credentials(1));
    let (now, home) = (net.now, net.clients[number].0);
    net.clients[number].1.handle_timeout(now, &mut net.random);
    let bind = net.clients[number].1.next_datagram().unwrap();
    for number in 0..20 {
        let _ = net.receive(anywhere(number), bind.as_bytes());
    }
    assert_eq!(net.receive(home, bind.as_bytes()), Err(Refused::CookieAsked));
    net.settle();
    assert_eq!(net.forward.client_at(&home), Some(0));
}

/// A client of release 0.1.0 does not say when it made its bind: records of it that come from one address have one place.
#[test]
fn fault_f15_records_of_an_old_client_from_one_address_leave_it_room() {
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

/// A client asks at both families and by WebSocket: the first that it confirms counts, and nothing of the others is left to be confirmed.
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
    // The second answer is there first, and the client uses it by both of its addresses.
    client.handle_datagram(&bounds[1], net.now, &mut net.random);
    let ping = client.next_datagram().unwrap();
    net.receive(six, ping.as_bytes()).unwrap();
    assert_eq!(net.forward.client_at(&six), Some(0));
    assert_eq!(net.server.poll_timeout().map(|due| due > net.now + Duration::from_secs(11)), Some(true), "none waits");
}

/// A relay of three places, and two networks.
fn full(limits: RelayLimits) -> Net {
    Net::new(RelayLimits { clients: 4, ..limits })
}

#[test]
fn fault_f15_a_network_that_fills_a_relay_makes_room_for_another_one() {
    let mut net = full(RelayLimits::DEFAULT);
    for number in 1..=5 {
        net.join(&credentials(number));
        net.run(Duration::from_secs(1));
    }
    assert_eq!((net.server.tally().clients, net.server.tally().evicted), (4, 0), "its own fifth has no room");
    for number in 11..=13 {
        net.join(&stranger(number));
        net.run(Duration::from_secs(1));
    }
    let ready = |net: &Net| net.clients.iter().map(|(_, client, ..)| client.is_ready()).collect::<Vec<_>>();
    assert_eq!(ready(&net), [true, true, false, false, false, true, true, false], "two for each, the oldest");
    assert_eq!(net.server.tally().evicted, 2);
    net.run(Duration::from_secs(300));
    assert_eq!(ready(&net), [true, true, false, false, false, true, true, false], "and nobody pushes anybody out");
    assert_eq!(net.server.tally().evicted, 2);
}

#[test]
fn fault_f15_pending_binds_of_a_network_that_has_too_many_make_room_for_another_one() {
    let mut net = Net::new(RelayLimits { pending: 8, ..RelayLimits::DEFAULT });
    for number in 1..=40 {
        let bind = bind_of(&credentials(number), &mut net.random, net.now);
        let _ = net.receive(anywhere(u32::from(number)), &bind);
    }
    // Another network has a bind pending, and the first one goes on.
    net.held = Some(Vec::new());
    let honest = net.join(&stranger(100));
    net.settle();
    let now = net.now;
    net.clients[honest].1.handle_timeout(now, &mut net.random);
    net.settle();
    for number in 41..=80 {
        let bind = bind_of(&credentials(number), &mut net.random, net.now);
        let _ = net.receive(anywhere(u32::from(number)), &bind);
    }
    let held = net.held.take().unwrap();
    held.iter().for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.settle();
    assert_eq!(net.server.tally().clients, 1, "its bind was still there to be confirmed");
}

#[test]
fn fault_f15_channels_of_a_network_that_has_too_many_make_room_for_another_one() {
    let mut net = Net::new(RelayLimits { all_channels: 10, ..RelayLimits::DEFAULT });
    for number in 1..=3 {
        net.join(&credentials(number));
    }
    let (a, b) = (net.join(&stranger(11)), net.join(&stranger(12)));
    net.run(Duration::from_millis(100));
    net.open(0, 2);
    for peer in 20..40 {
        net.open(2, peer);
    }
    assert!(net.events(2).contains(&RelayEvent::Refused { peer: node_key(39) }), "its own share is all of it");
    net.open(a, 12);
    net.assert_reach((a, 11), (b, 12));
    assert_eq!(net.server.tally().channels_evicted, 2);
    // The client that had most gave way, not its neighbours in the same network.
    net.assert_reach((0, 1), (1, 2));
    // All that is open can be closed again, and nothing is left over.
    for client in 0..net.clients.len() {
        net.clients[client].1.leave();
    }
    net.settle();
    assert_eq!((net.server.tally().clients, net.server.tally().channels), (0, 0));
}

/// Networks of any size come and go: no table holds more than it may, and no client of a network that has its fair share or less is ended.
#[test]
fn fault_f15_whoever_comes_a_network_with_its_fair_share_keeps_its_clients() {
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
            // Long enough for one more to be bound, too short for those who were refused to try again.
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
fn fault_f15_a_member_that_binds_again_and_again_begins_one_binding_a_second() {
    let mut net = Net::with(&[2]);
    let first = net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    net.open(0, 1);
    net.events(0);
    for _ in 0..100 {
        net.clients[first].1 = new_client(&credentials(1), net.now);
        net.clients[first].0 = anywhere(net.random.below(1 << 20));
        net.run(Duration::from_millis(50));
    }
    // 20 at once, and one for each of five seconds; each of them is news for the peer that opened the member.
    assert!((20..=28).contains(&net.server.tally().bound), "{}", net.server.tally().bound);
}

#[test]
fn fault_f16_connections_of_one_address_have_one_share_too() {
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
fn fault_f16_the_addresses_of_one_prefix_have_one_share_and_a_carriers_nat_gets_all_its_nodes_in() {
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
    // 1,000 nodes behind one address, each of which tries again every second.
    let (nat, mut waiting) = ("192.0.2.77".parse().unwrap(), 1_000);
    for second in 0..10 {
        waiting -= (0..waiting).filter(|number| take(&mut net, 10_000 * (second + 1) + number, nat)).count() as u64;
        net.now = net.now + Duration::from_secs(1);
    }
    assert_eq!(waiting, 0);
}

#[test]
fn fault_f16_one_address_does_not_use_up_what_others_are_told_by() {
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
    assert!(net.clients[0].1.is_ready() && net.server.tally().clients == 1, "told, and bound again");
}
