//! A client's address: which frames move the client, and how little the relay sends to an address that no client has proven to own (fault F14).

use super::*;

/// Returns a control frame of this client that is newer than all its earlier ones.
fn newest(net: &mut Net, client: usize) -> Vec<u8> {
    let now = net.now;
    net.clients[client].1.handle_move(now, &mut net.random);
    net.clients[client].1.next_datagram().expect("a ping").as_bytes().to_vec()
}

/// Returns the relay's first reply to this address.
fn reply_to(net: &mut Net, to: ClientAddress) -> Vec<u8> {
    let replies: Vec<_> = std::iter::from_fn(|| net.next_reply()).filter(|reply| reply.address == to).collect();
    replies.first().expect("a reply").as_bytes().to_vec()
}

#[test]
fn fault_f14_a_frame_with_a_forged_source_address_does_not_displace_the_client_there() {
    let mut net = Net::with(&[1, 2, 3]);
    net.open(2, 2);
    let victim = net.clients[1].0;
    for _ in 0..10 {
        let forged = newest(&mut net, 0);
        let _ = net.receive(victim, &forged);
    }
    net.assert_reach((1, 2), (2, 3));
    assert_eq!(net.server.tally().moved, 0);
}

#[test]
fn fault_f14_an_unproven_address_gets_no_more_bytes_than_came_from_it() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    let (home, forged) = (net.clients[0].0, address(9));
    let frame = newest(&mut net, 0);
    let _ = net.receive(forged, &frame);
    let id = net.clients[1].1.id_of(&node_key(1)).unwrap();
    for _ in 0..1_000 {
        net.send(1, id, &[0; 1_000]);
    }
    assert!(net.bytes_to(forged) <= frame.len(), "{} bytes for {}", net.bytes_to(forged), frame.len());
    assert_eq!(net.forward.client_at(&home), Some(0));
    assert_eq!(net.data(0).len(), 1_000, "all data went to the client's real address");
}

#[test]
fn fault_f14_challenges_are_no_longer_than_the_frames_that_cause_them_and_their_rate_is_bounded() {
    let mut net = Net::with(&[1]);
    let mut sent = 0;
    for round in 0..1_000 {
        net.now = net.now + Duration::from_millis(10);
        let frame = newest(&mut net, 0);
        sent += frame.len();
        let _ = net.receive(address(2_000 + round % 7), &frame);
    }
    let received: usize = (0..7).map(|number| net.bytes_to(address(2_000 + number))).sum();
    assert!(received <= sent);
    let tally = net.server.tally();
    assert!(
        (65..=71).contains(&tally.challenged),
        "a burst of 20 and 5 a second for 10 s, but {} challenges",
        tally.challenged
    );
    assert_eq!(tally.challenged + tally.move_rate, 1_000);
    assert_eq!(tally.moved, 0);
}

#[test]
fn fault_f14_a_confirmation_from_a_forged_address_binds_the_address_that_got_the_answer() {
    let mut net = Net::with(&[2]);
    let (home, forged) = (address(50), net.clients[0].0);
    let mut client = new_client(&credentials(1), net.now);
    client.handle_timeout(net.now, &mut net.random);
    let bind = client.next_datagram().unwrap();
    let clocks = net.clocks();
    net.server.handle_frame(home, None, bind.as_bytes(), clocks, &mut net.random).unwrap();
    let bound = reply_to(&mut net, home);
    client.handle_datagram(&bound, net.now, &mut net.random);
    let before = net.bytes_to(forged);
    let ping = client.next_datagram().unwrap();
    net.receive(forged, ping.as_bytes()).unwrap();
    assert_eq!(net.server.tally().clients, 2);
    assert_eq!(net.forward.client_at(&home), Some(1));
    assert_eq!(net.forward.client_at(&forged), Some(0), "the other client keeps its address");
    assert!(net.bytes_to(forged) - before <= CONTROL_LEN);
}

/// A member can read at one address only. It sends the same `bind` with a forged source as well, in either order.
#[test]
fn fault_f14_a_bind_with_a_forged_source_does_not_take_over_that_address() {
    for forged_first in [false, true] {
        let mut net = Net::with(&[2]);
        let (home, forged) = (address(50), net.clients[0].0);
        let before = net.bytes_to(forged);
        let mut client = new_client(&credentials(1), net.now);
        client.handle_timeout(net.now, &mut net.random);
        let bind = client.next_datagram().unwrap();
        let clocks = net.clocks();
        let mut bound = Vec::new();
        for from in if forged_first { [forged, home] } else { [home, forged] } {
            net.server.handle_frame(from, None, bind.as_bytes(), clocks, &mut net.random).unwrap();
            let answer = reply_to(&mut net, from);
            assert!(answer.len() < bind.as_bytes().len());
            bound.extend((from == home).then_some(answer));
        }
        client.handle_datagram(&bound[0], net.now, &mut net.random);
        while let Some(frame) = client.next_datagram() {
            let _ = net.receive(forged, frame.as_bytes());
        }
        assert_eq!(net.forward.client_at(&home), Some(1), "forged first: {forged_first}");
        assert_eq!(net.forward.client_at(&forged), Some(0));
        assert!(net.bytes_to(forged) - before <= BIND_LEN + CONTROL_LEN);
    }
}

#[test]
fn fault_f14_only_the_right_nonce_from_the_challenged_address_in_time_moves_a_client() {
    let (elsewhere, third) = (address(2_000), address(3_000));
    let answers = [
        ("from a third address", third, Duration::ZERO, 0),
        ("too late", elsewhere, Duration::from_secs(11), 0),
        ("from the challenged address and in time", elsewhere, Duration::from_secs(2), 1),
    ];
    for (what, from, pause, moved) in answers {
        let mut net = Net::with(&[1]);
        let ping = newest(&mut net, 0);
        let clocks = net.clocks();
        net.server.handle_frame(elsewhere, None, &ping, clocks, &mut net.random).unwrap();
        let challenge = reply_to(&mut net, elsewhere);
        let now = net.now;
        net.clients[0].1.handle_datagram(&challenge, now, &mut net.random);
        let response = net.clients[0].1.next_datagram().unwrap();
        net.now = net.now + pause;
        net.receive(from, response.as_bytes()).unwrap();
        assert_eq!(net.server.tally().moved, moved, "{what}");
        // The same response a second time is refused as a replay.
        assert_eq!(net.receive(from, response.as_bytes()), Err(Refused::NotAuthentic), "{what}");
    }
}

#[test]
fn fault_f14_a_displaced_client_is_reachable_after_its_next_frame() {
    let mut net = Net::with(&[1, 2, 3]);
    net.open(2, 2);
    let shared = net.clients[1].0;
    // The NAT gives the second node's port to the first node, which moves to that address and answers the challenge.
    net.clients[0].0 = shared;
    net.clients[1].0 = address(4_000);
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    net.settle();
    assert_eq!((net.server.tally().displaced, net.forward.client_at(&shared)), (1, Some(0)));
    // Data for the second node does not reach the first one meanwhile.
    let id = net.clients[2].1.id_of(&node_key(2)).unwrap();
    net.send(2, id, b"for the second");
    assert!(net.data(0).is_empty() && net.data(1).is_empty());
    net.clients[1].1.handle_suspicion(now, &mut net.random);
    net.settle();
    net.assert_reach((1, 2), (2, 3));
    net.open(0, 3);
    net.assert_reach((0, 1), (2, 3));
}

/// Two clients can read at the same address. The relay assigns it to the client that answered a challenge last; the other client gets it back with its next
/// frame.
#[test]
fn fault_f14_an_address_belongs_to_the_client_that_answered_a_challenge_last() {
    let mut net = Net::with(&[1, 2, 3]);
    net.open(2, 2);
    net.open(2, 1);
    let shared = net.clients[1].0;
    net.clients[0].0 = shared;
    for _ in 0..3 {
        for (client, number) in [(0, 1), (1, 2)] {
            net.now = net.now + Duration::from_secs(1);
            let now = net.now;
            net.clients[client].1.handle_suspicion(now, &mut net.random);
            net.settle();
            assert_eq!(net.forward.client_at(&shared).map(|slot| slot as usize), Some(client));
            net.data(client);
            let id = net.clients[2].1.id_of(&node_key(number)).unwrap();
            net.send(2, id, b"to the last one");
            assert_eq!(net.data(client).len(), 1);
        }
    }
}

/// A client of release 0.1.0 ignores the challenge. It gets no pong at its new address, so it gives up the binding and binds again from that address.
#[test]
fn fault_f14_a_client_of_release_0_1_0_binds_again_from_its_new_address() {
    let mut net = Net::with(&[1, 2]);
    net.clients[0].1 = old_client(&credentials(1), net.now);
    net.run(Duration::from_millis(100));
    net.open(1, 1);
    net.assert_reach((0, 1), (1, 2));
    net.events(0);
    net.clients[0].0 = address(2_000);
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    net.run(Duration::from_secs(3));
    assert_eq!(net.events(0)[..2], [RelayEvent::Lost(LostCause::Silent), RelayEvent::Ready]);
    assert!(net.server.tally().challenged > 0 && net.server.tally().moved == 0);
    assert_eq!(net.clients[0].1.seen(), Some(SocketAddr::from(([192, 0, 2, 1], 2_000))));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn fault_f14_a_copied_frame_over_a_websocket_does_not_move_the_client() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    // The copy arrives before the original, so the relay refuses the original as a replay.
    let frame = newest(&mut net, 0);
    net.receive(ClientAddress::Stream(7), &frame).unwrap();
    let home = net.clients[0].0;
    assert_eq!(net.receive(home, &frame), Err(Refused::NotAuthentic));
    net.assert_reach((0, 1), (1, 2));
    assert_eq!((net.server.tally().moved, net.bytes_to(ClientAddress::Stream(7))), (0, CONTROL_LEN));
}

#[test]
fn a_client_that_moves_gets_its_pong_within_two_round_trips() {
    let mut net = Net::with(&[1]);
    net.clients[0].0 = address(2_000);
    net.held = Some(Vec::new());
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    for _ in 0..2 {
        net.settle();
        let held = net.held.replace(Vec::new()).unwrap();
        held.iter().for_each(|(to, bytes)| net.deliver(*to, bytes));
    }
    assert_eq!(net.clients[0].1.seen(), Some(SocketAddr::from(([192, 0, 2, 1], 2_000))));
    assert_eq!(net.clients[0].1.standing(), BindingState::Ready);
}

/// An adversary that sees the clients' frames and can send copies of them.
struct Adversary {
    /// Copies of the frames of all clients.
    seen: Vec<Vec<u8>>,
    random: Seeded,
}

impl Adversary {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(u32::try_from(bound).unwrap_or(1)) as usize
    }

    /// Sends a random captured frame from a random address: an unused one, or one of a client.
    fn replay(&mut self, net: &mut Net) {
        let addresses =
            [address(9), address(10), net.clients[0].0, net.clients[1].0, net.clients[2].0, ClientAddress::Stream(5)];
        let (address, number) = (self.below(addresses.len()), self.below(self.seen.len().max(1)));
        let Some(frame) = self.seen.get(number).cloned() else { return };
        let clocks = net.clocks();
        let _ = net.server.handle_frame(addresses[address], None, &frame, clocks, &mut net.random);
        net.flush();
    }
}

/// Clients move, and the adversary delays, repeats and forges frames, in random order. Data for a client goes only to addresses that it has had, and a client
/// is reachable at its current address after its next frame. The first client belongs to the adversary.
#[test]
fn fault_f14_forged_and_replayed_frames_divert_no_traffic() {
    for seed in taut_testkit::seeds(15, 1_000) {
        let mut net = Net::with(&[1, 2, 3]);
        for (client, peer) in [(0, 2), (0, 3), (1, 3)] {
            net.open(client, peer);
        }
        let mut adversary = Adversary { seen: Vec::new(), random: Seeded::new(seed) };
        let mut past_addresses: Vec<Vec<ClientAddress>> =
            net.clients.iter().map(|(address, ..)| vec![*address]).collect();
        for step in 0..200_u16 {
            net.now = net.now + Duration::from_millis(150);
            let client = adversary.below(3);
            match adversary.below(4) {
                0 => {
                    let to = address(5_000 + 4 * step + u16::try_from(client).unwrap());
                    net.clients[client].0 = to;
                    past_addresses[client].push(to);
                    let now = net.now;
                    net.clients[client].1.handle_move(now, &mut net.random);
                    if adversary.below(2) == 0 {
                        net.settle();
                    }
                }
                1 => {
                    // The adversary sees the frame before the relay does.
                    let frame = newest(&mut net, client);
                    adversary.seen.push(frame.clone());
                    adversary.replay(&mut net);
                    let from = net.clients[client].0;
                    let _ = net.receive(from, &frame);
                }
                2 => adversary.replay(&mut net),
                _ => net.settle(),
            }
            for receiver in 0..3_usize {
                for sender in (0..3).filter(|sender| *sender != receiver) {
                    assert_not_diverted(&mut net, sender, receiver, &past_addresses);
                }
            }
        }
        for client in 0..3 {
            net.now = net.now + Duration::from_secs(5);
            let now = net.now;
            net.clients[client].1.handle_move(now, &mut net.random);
            net.settle();
            net.run(Duration::from_secs(12));
        }
        net.assert_reach((0, 1), (1, 2));
        net.assert_reach((1, 2), (2, 3));
    }
}

/// Asserts that a frame that the relay forwards from `sender` to `receiver` goes to an address that the receiver has had.
fn assert_not_diverted(net: &mut Net, sender: usize, receiver: usize, past_addresses: &[Vec<ClientAddress>]) {
    let key = node_key(u8::try_from(receiver).unwrap() + 1);
    let Some(id) = net.clients[sender].1.id_of(&key) else { return };
    let mut frame = carried(id, b"payload");
    let addresses = past_addresses[sender].iter().rev().find_map(|address| net.forward.client_at(address));
    let Some(slot) = addresses else { return };
    if let Ok(to) = net.forward.forward(slot, &mut frame, net.now) {
        let owner = past_addresses.iter().position(|past_addresses| past_addresses.contains(&to));
        assert_eq!(owner, Some(receiver), "{to:?}");
    }
}
