//! Altered, replayed and forged frames, floods of binds, and hostile relays (faults A14, A16, B3, C6, F18).

use super::*;

#[test]
fn fault_c6_a_replayed_control_frame_from_another_address_moves_no_client() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    let now = net.now;
    net.clients[0].1.handle_suspicion(now, &mut net.random);
    let ping = net.clients[0].1.next_datagram().unwrap();
    net.receive(address(1000), ping.as_bytes()).unwrap();
    assert_eq!(net.receive(address(9), ping.as_bytes()), Err(Refused::NotAuthentic));
    assert_eq!(net.server.tally().moved, 0);
    // A control frame that arrives late is authentic, but an older frame moves no client either.
    net.clients[0].1.handle_move(now, &mut net.random);
    let late = net.clients[0].1.next_datagram().unwrap();
    net.clients[0].1.handle_move(now, &mut net.random);
    net.settle();
    net.receive(address(9), late.as_bytes()).unwrap();
    assert_eq!(net.server.tally().moved, 0);
}

#[test]
fn fault_c6_a_replayed_bind_binds_no_client() {
    let mut net = Net::with(&[]);
    let client = net.join(&credentials(1));
    let (now, from) = (net.now, net.clients[client].0);
    net.clients[client].1.handle_timeout(now, &mut net.random);
    let bind = net.clients[client].1.next_datagram().unwrap();
    net.receive(from, bind.as_bytes()).unwrap();
    net.settle();
    assert_eq!(net.server.tally().clients, 1);
    for _ in 0..5 {
        assert_eq!(net.receive(address(9), bind.as_bytes()), Err(Refused::Stale));
    }
    net.run(Duration::from_secs(30));
    assert_eq!((net.server.tally().replaced, net.server.tally().bound), (0, 1));
    assert_eq!(net.forward.client_at(&from), Some(0));
}

#[test]
fn fault_a14_a16_a_bind_with_a_flipped_bit_is_refused() {
    let mut net = Net::with(&[]);
    let bind = bind_of(&credentials(1), &mut net.random, net.now);
    assert_eq!(bind.len(), BIND_LEN);
    for bit in 0..(BIND_LEN - 16) * 8 {
        let mut altered = bind.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(net.receive(address(9), &altered).is_err(), "bit {bit}");
    }
    for length in 0..BIND_LEN {
        assert_eq!(net.receive(address(9), &bind[..length]), Err(Refused::NotAFrame));
    }
    assert_eq!(
        net.server.tally().bad_mac,
        (BIND_LEN as u64 - 16 - 4) * 8,
        "all altered bits except those of the first four bytes, which make it no frame of a known type"
    );
    // With a valid mac1, the handshake itself refuses the altered bytes.
    let remote = taut_tunnel::handshake::Remote::new(
        &taut_tunnel::handshake::Identity::new(bind_key(1)),
        public_key(&relay_key()),
        taut_base::PresharedKey::NONE,
    );
    let remote = remote.unwrap();
    for byte in 4..BIND_LEN - 32 {
        net.now = net.now + Duration::from_secs(1);
        let mut altered = bind.clone();
        altered[byte] ^= 0x10;
        remote.write_mac1(&mut altered);
        assert_eq!(net.receive(address(9), &altered), Err(Refused::NotAuthentic), "byte {byte}");
    }
    assert_eq!(net.receive(address(9), &bind), Ok(()));
}

#[test]
fn fault_a14_a16_an_answer_with_a_flipped_bit_is_refused_and_the_real_one_still_binds() {
    let mut net = Net::with(&[]);
    let mut client = Client::new(public_key(&relay_key()), credentials(1), net.now);
    client.handle_timeout(net.now, &mut net.random);
    let bind = client.next_datagram().unwrap();
    let clocks = net.clocks();
    net.server.handle_frame(address(9), None, bind.as_bytes(), clocks, &mut net.random).unwrap();
    let bound = net.next_reply().unwrap().as_bytes().to_vec();
    for bit in 0..bound.len() * 8 {
        let mut altered = bound.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        client.handle_datagram(&altered, net.now, &mut net.random);
        assert!(!client.is_ready() && client.take_events().is_empty(), "bit {bit}");
    }
    client.handle_datagram(&bound, net.now, &mut net.random);
    assert_eq!(client.take_events(), [RelayEvent::Ready]);
}

#[test]
fn fault_b3_b5_a_flood_of_binds_is_asked_for_cookies_and_honest_clients_are_bound() {
    let mut net = Net::with(&[]);
    let flood = bind_of(&credentials(9), &mut net.random, net.now);
    let mut cookies = 0;
    let at_start = net.now;
    for number in 0..20_000_u64 {
        net.now = at_start + Duration::from_micros(number * 50);
        // Half of the binds have forged sources; the other half come from a port of the NAT that the honest client is behind.
        let source = match number % 2 {
            0 => SocketAddr::from(([10, (number >> 16) as u8, (number >> 8) as u8, number as u8], 9)),
            _ => SocketAddr::from(([192, 0, 2, 1], 9)),
        };
        let clocks = net.clocks();
        let outcome = net.server.handle_frame(ClientAddress::Udp(source), None, &flood, clocks, &mut net.random);
        cookies += u32::from(outcome == Err(Refused::CookieAsked));
        while let Some(reply) = net.next_reply() {
            assert!(reply.as_bytes().len() <= flood.len());
        }
    }
    assert!(cookies > 15_000, "{cookies}");
    // A second later the flood comes from the honest client's own address.
    net.now = net.now + Duration::from_secs(1);
    for _ in 0..100 {
        let _ = net.receive(address(1000), &flood);
    }
    let honest = net.join(&credentials(1));
    let before = net.server.tally().cookie_asked;
    net.run(Duration::from_millis(100));
    assert!(net.clients[honest].1.is_ready());
    assert_eq!(net.server.tally().cookie_asked, before + 1, "one cookie was enough");
}

#[test]
fn fault_a14_random_bytes_change_nothing() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    let mut bytes = [0; 400];
    for round in 0..20_000_usize {
        net.random.fill(&mut bytes);
        let length = round % bytes.len();
        if round % 3 != 0 {
            bytes[0] = 0x80 | bytes[0] & 7;
            bytes[1..4].fill(0);
        }
        let _ = net.receive(address(9), &bytes[..length]);
        net.deliver(address(1000), &bytes[..length]);
    }
    net.clients[0].3.clear();
    net.run(Duration::from_secs(1));
    net.assert_reach((0, 1), (1, 2));
    assert_eq!(net.server.tally().clients, 2);
}

/// Clients join, leave, open, close, move and restart in random order: the tables of server and worker agree, and nothing remains after all have left.
#[test]
fn the_tables_agree_after_random_client_actions() {
    for seed in taut_testkit::seeds(10, 500) {
        let mut net = Net::with(&[1, 2, 3, 4]);
        let mut random = Seeded::new(seed);
        for _ in 0..200 {
            let (client, peer) = (random.below(4) as usize, random.below(4) as u8 + 1);
            match random.below(6) {
                0 | 1 => drop(net.open(client, peer)),
                2 => net.clients[client].1.close(&node_key(peer)),
                3 => {
                    net.clients[client].0 =
                        address(5000 + u16::try_from(random.below(1000)).unwrap() * 4 + client as u16);
                    let now = net.now;
                    net.clients[client].1.handle_move(now, &mut net.random);
                }
                4 => {
                    net.clients[client].1.leave();
                    net.settle();
                    let fresh = new_client(&credentials(client as u8 + 1), net.now);
                    net.clients[client].1 = fresh;
                }
                _ => net.run(Duration::from_millis(u64::from(random.below(3000)))),
            }
            net.settle();
        }
        net.run(Duration::from_secs(60));
        for a in 0..4_usize {
            for b in 0..4_usize {
                let id = net.clients[a].1.id_of(&node_key(b as u8 + 1));
                if a != b && id.is_some() {
                    net.assert_reach((a, a as u8 + 1), (b, b as u8 + 1));
                }
            }
        }
        for client in 0..4 {
            net.clients[client].1.leave();
        }
        net.settle();
        assert_eq!((net.server.tally().clients, net.server.tally().channels), (0, 0), "seed {seed}");
    }
}

#[test]
fn fault_f18_a_client_binds_about_once_a_second_to_a_relay_that_always_forgets_it() {
    let mut net = Net::with(&[1]);
    let mut bound = 0;
    for _ in 0..300 {
        net.restart();
        // The restarted relay answers each frame of the client with the hint that the client is not bound.
        let now = net.now;
        net.clients[0].1.handle_suspicion(now, &mut net.random);
        net.run(Duration::from_millis(10));
        bound += net.server.tally().bound;
    }
    assert!((3..=8).contains(&bound), "{bound} binds in three seconds");
}

#[test]
fn fault_f18_only_the_answer_to_the_last_ping_sets_the_observed_address() {
    let mut net = Net::with(&[1]);
    net.held = Some(Vec::new());
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    net.settle();
    let late = net.held.take().unwrap();
    // The client moves before the answer arrives.
    net.clients[0].0 = address(2000);
    net.clients[0].1.handle_move(now, &mut net.random);
    net.settle();
    let seen = Some(SocketAddr::from(([192, 0, 2, 1], 2000)));
    assert_eq!(net.clients[0].1.seen(), seen);
    assert!(!late.is_empty());
    for (_, frame) in late {
        net.clients[0].1.handle_datagram(&frame, now, &mut net.random);
    }
    assert_eq!(net.clients[0].1.seen(), seen, "answers to earlier pings are ignored");
}
