//! The lanes of clients beyond the first: which addresses are bound, what is forwarded there, and how little a member gains by them.

use super::*;
use crate::control::ControlMessage;
use crate::forward::ClientLane;

/// Returns two clients with a channel to each other and this many lanes each, and the first one's number for the second.
fn two_with_lanes(count: u8) -> (Net, u32) {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    (0..2).for_each(|client| use_lanes(&mut net, client, count));
    (net, id)
}

fn use_lanes(net: &mut Net, client: usize, count: u8) {
    let now = net.now;
    net.clients[client].1.set_lanes(count, now, &mut net.random);
    net.run(Duration::from_millis(100));
}

fn at(net: &Net, client: usize, lane: u8) -> ClientAddress {
    lane_address(net.clients[client].0, lane)
}

/// Sends data to a lane of the peer from a lane of the client. Returns the number in the frame that arrived.
fn carry(net: &mut Net, (client, from): (usize, u8), id: u32, (other, to): (usize, u8)) -> Option<u32> {
    let (from, to) = (at(net, client, from), at(net, other, to));
    let before = net.bytes_to(to);
    let _ = net.receive(from, &carried(id, b"data"));
    let arrived = net.bytes_to(to) > before;
    net.data(other).last().map(|(id, _)| *id).filter(|_| arrived)
}

/// Seals any control message of a client.
fn sealed(net: &mut Net, client: usize, message: ControlMessage) -> Vec<u8> {
    net.clients[client].1.seal(&message.write()).unwrap().to_vec()
}

#[test]
fn lanes_use_the_members_binding_and_numbers() {
    let (mut net, id) = two_with_lanes(3);
    assert_eq!((net.server.tally().lanes, net.server.tally().bound, net.server.tally().moved), (4, 2, 0));
    assert!(net.clients[0].1.has_lane(1) && net.clients[0].1.has_lane(2) && !net.clients[0].1.has_lane(3));
    assert_eq!(net.events(0).iter().filter(|event| **event == RelayEvent::Lanes).count(), 2);
    let back = net.clients[1].1.id_of(&node_key(1)).unwrap();
    for (from, to) in [(0, 0), (1, 1), (2, 1), (0, 2)] {
        assert_eq!(carry(&mut net, (0, from), id | u32::from(to), (1, to)), Some(back | u32::from(from)));
    }
    assert_eq!(carry(&mut net, (0, 1), id | 9, (1, 0)), Some(back | 1), "a lane that is not bound");
    // Another member's number means nothing from a lane, as from the first address.
    assert_eq!(carry(&mut net, (0, 1), back | 1, (1, 1)), None);
}

#[test]
fn a_lane_that_its_client_does_not_name_ends_and_so_does_one_that_is_given_back() {
    let (mut net, id) = two_with_lanes(2);
    net.run(Duration::from_secs(600));
    assert_eq!(net.server.tally().lanes, 2, "it is named all the time");
    assert!(net.bytes_to(at(&net, 1, 1)) <= CONTROL_LEN * 33, "{} bytes in 600 s", net.bytes_to(at(&net, 1, 1)));
    use_lanes(&mut net, 0, 1);
    assert_eq!((net.server.tally().lanes, net.forward.client_at(&at(&net, 0, 1))), (1, None));
    // The other client's lane is silent from now on; its first address is not.
    net.clients[1].1.set_lanes(1, net.now, &mut net.random);
    while net.clients[1].1.next_datagram().is_some() {}
    net.run(Duration::from_secs(60));
    assert_eq!(net.server.tally().lanes, 1, "90 s after it was named last, 25 s ago at most");
    net.run(Duration::from_secs(35));
    assert_eq!((net.server.tally().lanes, net.server.tally().clients), (0, 2));
    assert_eq!(carry(&mut net, (0, 0), id | 1, (1, 0)).map(|id| id & 0xf), Some(0));
    assert!(net.server.poll_timeout().is_some_and(|due| due > net.now), "no lane's deadline is left");
}

#[test]
fn lanes_outlive_a_renewed_ticket_and_come_back_after_a_restart_of_the_relay() {
    let (mut net, id) = two_with_lanes(2);
    net.events(0);
    let now = net.now;
    net.clients[0].1.set_credentials(credentials(1), now);
    net.run(Duration::from_secs(30));
    assert_eq!(net.server.tally().lanes, 2);
    assert!(!net.events(0).contains(&RelayEvent::Lanes), "no lane was lost for a moment");
    net.restart();
    let _ = carry(&mut net, (0, 1), id | 1, (1, 1));
    net.run(Duration::from_secs(30));
    assert_eq!(net.server.tally().lanes, 2);
    assert_eq!(net.events(0).iter().filter(|event| **event == RelayEvent::Lanes).count(), 2, "lost, and bound again");
    assert!(carry(&mut net, (0, 1), id | 1, (1, 1)).is_some());
}

#[test]
fn the_lanes_of_a_program_that_was_replaced_end_soon() {
    let (mut net, _) = two_with_lanes(2);
    net.clients[0].0 = address(7_000);
    net.clients[0].1 = new_client(&credentials(1), net.now + Duration::from_secs(1));
    net.run(Duration::from_secs(12));
    assert_eq!((net.server.tally().clients, net.server.tally().lanes), (2, 1));
}

#[test]
fn a_lane_whose_address_changed_is_bound_at_the_new_one_after_its_first_data() {
    let (mut net, id) = two_with_lanes(2);
    // The NAT gives both of the client's sockets other ports.
    net.clients[0].0 = address(7_000);
    for _ in 0..50 {
        let _ = carry(&mut net, (0, 1), id | 1, (1, 1));
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.forward.lane_at(&at(&net, 0, 1)), Some(ClientLane { slot: 0, lane: 1 }));
    assert_eq!(net.server.tally().lanes, 2);
    assert!(carry(&mut net, (0, 1), id | 1, (1, 1)).is_some());
}

#[test]
fn fault_f14_a_lane_is_bound_only_where_its_client_receives() {
    let mut net = Net::with(&[1, 2, 3]);
    net.open(2, 2);
    let (victim, invented) = (net.clients[1].0, address(9));
    let before = net.bytes_to(victim);
    for lane in 1..16 {
        for from in [victim, invented] {
            let frame = sealed(&mut net, 0, ControlMessage::Lane { lane });
            let _ = net.receive(from, &frame);
            let guess = sealed(&mut net, 0, ControlMessage::Proof { lane, nonce: [0; 16] });
            let _ = net.receive(from, &guess);
        }
    }
    assert_eq!((net.server.tally().lanes, net.server.tally().moved, net.server.tally().displaced), (0, 0, 0));
    assert!(net.bytes_to(invented) <= 15 * CONTROL_LEN && net.bytes_to(victim) - before <= 15 * CONTROL_LEN);
    assert_eq!(net.server.tally().challenged, 20, "one budget for all lanes and moves of a client");
    net.assert_reach((1, 2), (2, 3));
}

#[test]
fn fault_f14_a_nonce_proves_one_lane_at_one_address() {
    let mut net = Net::with(&[1]);
    let (one, two) = (at(&net, 0, 1), at(&net, 0, 2));
    net.held = Some(Vec::new());
    let now = net.now;
    net.clients[0].1.set_lanes(2, now, &mut net.random);
    net.settle();
    let (to, prove) = net.held.take().unwrap().remove(0);
    assert_eq!(to, one);
    net.clients[0].1.handle_lane_datagram(1, &prove, now, &mut net.random);
    let (lane, proof) = net.clients[0].1.next_lane_datagram().unwrap();
    assert_eq!(lane, 1);
    // An attacker on the path sends the proof from elsewhere first.
    let _ = net.receive(two, proof.as_bytes());
    assert_eq!(net.server.tally().lanes, 0);
    assert_eq!(net.receive(one, proof.as_bytes()), Err(Refused::NotAuthentic), "it counts once");
    net.run(Duration::from_secs(1));
    assert_eq!((net.server.tally().lanes, net.forward.client_at(&one)), (1, Some(0)));
}

#[test]
fn an_address_belongs_to_one_lane_of_one_client() {
    let (mut net, id) = two_with_lanes(2);
    let lane = at(&net, 1, 1);
    // The first client's NAT gives its only socket the address of the other's lane.
    use_lanes(&mut net, 0, 1);
    net.clients[0].0 = lane;
    let now = net.now;
    net.clients[0].1.handle_move(now, &mut net.random);
    net.clients[1].1.set_lanes(1, now, &mut net.random);
    while net.clients[1].1.next_datagram().is_some() {}
    net.run(Duration::from_millis(500));
    assert_eq!(net.forward.lane_at(&lane), Some(ClientLane { slot: 0, lane: 0 }));
    assert_eq!((net.server.tally().lanes, net.server.tally().displaced), (0, 1));
    assert_eq!(carry(&mut net, (0, 0), id | 1, (1, 0)).map(|id| id & 0xf), Some(0));
    // A client's own first address is not a lane's.
    let frame = sealed(&mut net, 0, ControlMessage::Lane { lane: 3 });
    let before = net.bytes_to(lane);
    let _ = net.receive(lane, &frame);
    assert_eq!(net.bytes_to(lane), before);
}

#[test]
fn fault_f6_a_member_has_one_share_however_many_lanes_it_has() {
    let (net, id) = two_with_lanes(4);
    let share = ForwardRate { bytes_per_second: 100_000, burst: 10_000 };
    let shares = std::sync::Arc::new(crate::Shares::new(share, 2));
    // Each lane arrives at another thread.
    let mut threads: Vec<_> = (0..4).map(|_| Forward::sharing(std::sync::Arc::clone(&shares))).collect();
    let back = net.clients[1].1.id_of(&node_key(1)).unwrap();
    for thread in &mut threads {
        thread.apply(&crate::Change::Client { slot: 0, address: net.clients[0].0 });
        thread.apply(&crate::Change::Client { slot: 1, address: net.clients[1].0 });
        thread.apply(&crate::Change::Open { slot: 0, id, to: 1, to_id: back });
    }
    let mut sent = 0;
    for millisecond in 0..1_000 {
        let now = net.now + Duration::from_millis(millisecond);
        for (lane, thread) in (0..).zip(&mut threads) {
            let from = ClientLane { slot: 0, lane };
            sent += (0..10).filter(|_| thread.forward(from, &mut carried(id, &[0; 960]), now).is_ok()).count();
        }
    }
    assert!((100..=112).contains(&sent), "{sent} frames of 1,000 bytes in a second");
}

#[test]
fn fault_f7_the_table_of_lanes_is_bounded_and_shared_between_networks() {
    let limits = RelayLimits { lanes: 4, ..RelayLimits::DEFAULT };
    let mut net = Net::new(limits);
    net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    use_lanes(&mut net, 0, 16);
    assert_eq!(net.server.tally().lanes, 4);
    let other = Terms { network: NetworkTag([2; 16]), ..terms(2) };
    net.join(&Credentials { bind: bind_key(2), ticket: Ticket::sign(&other, &coordinator(1)), numbered: None });
    net.run(Duration::from_millis(100));
    use_lanes(&mut net, 1, 16);
    net.run(Duration::from_secs(5));
    let held =
        |net: &Net, client| (1..16).filter(|lane| net.forward.client_at(&at(net, client, *lane)).is_some()).count();
    assert_eq!((net.server.tally().lanes, held(&net, 0), held(&net, 1)), (4, 2, 2));
    net.server.handle_hangup(address(1));
    assert_eq!(net.server.tally().clients, 2, "nothing hangs up there");
}

#[test]
fn a_relay_of_release_0_1_0_receives_nothing_from_a_lane() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    net.server.is_release_0_1_0 = true;
    net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    let now = net.now;
    net.clients[0].1.set_lanes(4, now, &mut net.random);
    for _ in 0..600 {
        net.now = net.now + Duration::from_millis(100);
        let now = net.now;
        net.clients[0].1.handle_timeout(now, &mut net.random);
        while let Some((lane, datagram)) = net.clients[0].1.next_lane_datagram() {
            assert_eq!(lane, 0);
            let from = net.clients[0].0;
            let _ = net.receive(from, datagram.as_bytes());
        }
    }
    let client = &net.clients[0].1;
    assert!(!client.allows_lanes() && !client.has_lane(1) && client.has_lane(0));
    assert_eq!(client.standing(), BindingState::Ready);
}

#[test]
fn a_client_that_is_not_answered_on_a_lane_asks_rarely() {
    let mut net = Net::with(&[1]);
    let now = net.now;
    net.clients[0].1.set_lanes(2, now, &mut net.random);
    let mut asked = Vec::new();
    for _ in 0..6_000 {
        net.now = net.now + Duration::from_millis(100);
        let now = net.now;
        net.clients[0].1.handle_timeout(now, &mut net.random);
        while let Some((lane, datagram)) = net.clients[0].1.next_lane_datagram() {
            if lane > 0 {
                asked.push(now);
                continue;
            }
            let from = net.clients[0].0;
            let _ = net.receive(from, datagram.as_bytes());
        }
    }
    assert!((20..=30).contains(&asked.len()), "{} in ten minutes", asked.len());
    assert!(net.clients[0].1.is_ready() && !net.clients[0].1.has_lane(1));
}

/// Anyone who knows the relay's address can forge `again`. Each lane heeds one within a second.
#[test]
fn fault_f15_forged_agains_at_lanes_do_not_make_the_client_name_them_without_end() {
    let (mut net, _) = two_with_lanes(4);
    net.run(Duration::from_secs(5));
    let again = frame::again(7, &[1; 40]).unwrap();
    let mut named = 0;
    for _ in 0..1_000 {
        net.now = net.now + Duration::from_millis(10);
        let now = net.now;
        for lane in 1..4 {
            net.clients[0].1.handle_lane_datagram(lane, &again, now, &mut net.random);
        }
        if net.clients[0].1.poll_timeout().is_some_and(|due| now >= due) {
            net.clients[0].1.handle_timeout(now, &mut net.random);
        }
        while let Some((lane, datagram)) = net.clients[0].1.next_lane_datagram() {
            named += usize::from(lane > 0);
            let _ = net.receive(lane_address(net.clients[0].0, lane), datagram.as_bytes());
        }
        net.flush();
    }
    // Ten seconds: each message, and its proof.
    assert!((3..=3 * 2 * 12).contains(&named), "{named} frames of lanes");
}
