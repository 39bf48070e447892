//! Where a client is: who can move it, and what an address gets that nobody has proven to receive at (fault F14).

use super::*;

/// A control frame of this client that is newer than all before it.
fn newest(net: &mut Net, client: usize) -> Vec<u8> {
    let now = net.now;
    net.clients[client].1.handle_move(now, &mut net.random);
    net.clients[client].1.next_datagram().expect("a ping").as_bytes().to_vec()
}

/// The reply that goes to this place.
fn reply_to(net: &mut Net, to: ClientAddress) -> Vec<u8> {
    let replies: Vec<_> = std::iter::from_fn(|| net.next_reply()).filter(|reply| reply.address == to).collect();
    replies.first().expect("a reply").as_bytes().to_vec()
}

#[test]
fn fault_f14_a_frame_with_the_victims_address_as_source_cuts_nobody_off() {
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
fn fault_f14_an_address_that_never_asked_gets_no_more_than_came_from_it() {
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
    assert_eq!(net.data(0).len(), 1_000, "all of it came where the client is");
}

#[test]
fn fault_f14_challenges_are_as_long_as_what_asked_for_them_and_their_rate_is_bounded() {
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
    assert!((65..=71).contains(&tally.challenged), "20 at once and 5 a second for 10 s: {}", tally.challenged);
    assert_eq!(tally.challenged + tally.move_rate, 1_000);
    assert_eq!(tally.moved, 0);
}

#[test]
fn fault_f14_a_confirmation_from_a_forged_address_binds_where_the_answer_went() {
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
    assert_eq!(net.forward.client_at(&forged), Some(0), "the client that is there stays there");
    assert!(net.bytes_to(forged) - before <= CONTROL_LEN);
}

/// The member reads at one place only, and has the relay answer the same `bind` at another one, too, in either order.
#[test]
fn fault_f14_a_bind_with_a_forged_source_takes_no_place() {
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
fn fault_f14_only_the_right_nonce_from_the_right_place_in_time_moves_a_client() {
    let (elsewhere, third) = (address(2_000), address(3_000));
    let answers = [
        ("from a third place", third, Duration::ZERO, 0),
        ("too late", elsewhere, Duration::from_secs(11), 0),
        ("as it should be", elsewhere, Duration::from_secs(2), 1),
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
        // The same response again is a repeated frame.
        assert_eq!(net.receive(from, response.as_bytes()), Err(Refused::NotAuthentic), "{what}");
    }
}

#[test]
fn fault_f14_a_displaced_client_is_back_after_its_next_frame() {
    let mut net = Net::with(&[1, 2, 3]);
    net.open(2, 2);
    let shared = net.clients[1].0;
    // The NAT gives the port of the second node to the first one, which moves there as it should.
    net.clients[0].0 = shared;
    net.clients[1].0 = address(4_000);
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    net.settle();
    assert_eq!((net.server.tally().displaced, net.forward.client_at(&shared)), (1, Some(0)));
    // Meanwhile nothing for the second one goes to the first one.
    let id = net.clients[2].1.id_of(&node_key(2)).unwrap();
    net.send(2, id, b"for the second");
    assert!(net.data(0).is_empty() && net.data(1).is_empty());
    net.clients[1].1.handle_suspicion(now, &mut net.random);
    net.settle();
    net.assert_reach((1, 2), (2, 3));
    net.open(0, 3);
    net.assert_reach((0, 1), (2, 3));
}

/// Of two clients that both read at a place, the one that returned a nonce last has it, and the other one has it back with its next frame.
#[test]
fn fault_f14_of_two_clients_at_one_place_the_last_one_that_answered_is_there() {
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

/// A client of release 0.1.0 passes over the challenge. It has no pong from where it is now, gives the binding up, and binds again from there.
#[test]
fn fault_f14_a_client_of_release_0_1_0_binds_again_from_its_new_place() {
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
fn fault_f14_a_copied_frame_by_a_connection_moves_nobody_there() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    // The copy overtakes the original, which the relay then takes for the copy.
    let frame = newest(&mut net, 0);
    net.receive(ClientAddress::Stream(7), &frame).unwrap();
    let home = net.clients[0].0;
    assert_eq!(net.receive(home, &frame), Err(Refused::NotAuthentic));
    net.assert_reach((0, 1), (1, 2));
    assert_eq!((net.server.tally().moved, net.bytes_to(ClientAddress::Stream(7))), (0, CONTROL_LEN));
}

#[test]
fn a_client_that_moves_has_its_pong_within_two_round_trips() {
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

/// What an adversary does with the frames that clients send, and may see.
struct Adversary {
    /// Frames of all clients, sent or held back.
    seen: Vec<Vec<u8>>,
    random: Seeded,
}

impl Adversary {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(u32::try_from(bound).unwrap_or(1)) as usize
    }

    /// Sends something that it saw, from anywhere: an address where nobody listens, or where another client is.
    fn strike(&mut self, net: &mut Net) {
        let addresses =
            [address(9), address(10), net.clients[0].0, net.clients[1].0, net.clients[2].0, ClientAddress::Stream(5)];
        let (address, number) = (self.below(addresses.len()), self.below(self.seen.len().max(1)));
        let Some(frame) = self.seen.get(number).cloned() else { return };
        let clocks = net.clocks();
        let _ = net.server.handle_frame(addresses[address], None, &frame, clocks, &mut net.random);
        net.flush();
    }
}

/// Any schedule of moves and of frames that are held back, repeated, late, and sent from elsewhere: what is relayed for a client goes to places where it
/// was and answered, and a client is reachable where it is after its next frame. The first client is the adversary's own.
#[test]
fn fault_f14_whatever_is_forged_or_repeated_traffic_goes_only_where_a_nonce_came_from() {
    for seed in taut_testkit::seeds(15, 1_000) {
        let mut net = Net::with(&[1, 2, 3]);
        for (client, peer) in [(0, 2), (0, 3), (1, 3)] {
            net.open(client, peer);
        }
        let mut adversary = Adversary { seen: Vec::new(), random: Seeded::new(seed) };
        let mut homes: Vec<Vec<ClientAddress>> = net.clients.iter().map(|(address, ..)| vec![*address]).collect();
        for step in 0..200_u16 {
            net.now = net.now + Duration::from_millis(150);
            let client = adversary.below(3);
            match adversary.below(4) {
                0 => {
                    let to = address(5_000 + 4 * step + u16::try_from(client).unwrap());
                    net.clients[client].0 = to;
                    homes[client].push(to);
                    let now = net.now;
                    net.clients[client].1.handle_move(now, &mut net.random);
                    if adversary.below(2) == 0 {
                        net.settle();
                    }
                }
                1 => {
                    // The adversary has the frame first.
                    let frame = newest(&mut net, client);
                    adversary.seen.push(frame.clone());
                    adversary.strike(&mut net);
                    let from = net.clients[client].0;
                    let _ = net.receive(from, &frame);
                }
                2 => adversary.strike(&mut net),
                _ => net.settle(),
            }
            for receiver in 0..3_usize {
                for sender in (0..3).filter(|sender| *sender != receiver) {
                    goes_home(&mut net, sender, receiver, &homes);
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

/// If the relay forwards anything from one client to the other, it goes to where that one was.
fn goes_home(net: &mut Net, sender: usize, receiver: usize, homes: &[Vec<ClientAddress>]) {
    let key = node_key(u8::try_from(receiver).unwrap() + 1);
    let Some(id) = net.clients[sender].1.id_of(&key) else { return };
    let mut frame = carried(id, b"where to?");
    let addresses = homes[sender].iter().rev().find_map(|address| net.forward.client_at(address));
    let Some(slot) = addresses else { return };
    if let Ok(to) = net.forward.forward(slot, &mut frame, net.now) {
        let named = homes.iter().position(|homes| homes.contains(&to));
        assert_eq!(named, Some(receiver), "{to:?}");
    }
}
