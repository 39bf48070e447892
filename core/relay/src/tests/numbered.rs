//! Tickets that carry the node's id: one binding for each node, and none for removed nodes (fault F17).

use taut_base::NodeId;

use super::*;

/// Returns the credentials of node `id` with the key of `number`, valid from `later` seconds after [`WALL`].
fn node(id: u64, number: u8, later: u64) -> Credentials {
    let terms = Terms { not_before: WALL + later, ..terms(number) };
    let numbered = Terms { id: Some(NodeId(id)), ..terms };
    let [ticket, numbered] = [terms, numbered].map(|terms| Ticket::sign(&terms, &coordinator(1)));
    Credentials { bind: bind_key(number), ticket, numbered: Some(numbered) }
}

fn cut_off(net: &mut Net, id: Option<u64>, number: u8) {
    let at = net.clocks().wall;
    cut_off_at(net, id, node_key(number), at);
    net.flush();
}

#[test]
fn fault_f17_a_node_that_changes_its_key_has_one_binding_and_its_peers_see_the_former_key_leave() {
    let mut net = Net::with(&[1]);
    let client = net.join(&node(7, 2, 0));
    net.run(Duration::from_millis(100));
    net.open(0, 2);
    net.assert_reach((0, 1), (client, 2));
    for number in 3..=9 {
        net.now = net.now + Duration::from_secs(60);
        net.clients[client].0 = other_port(u16::from(number));
        net.clients[client].1 = new_client(&node(7, number, 60 * u64::from(number)), net.now);
        net.run(Duration::from_millis(100));
        assert!(net.clients[client].1.is_ready());
        assert_eq!(net.server.tally().clients, 2, "with key {number}");
    }
    assert!(net.events(0).contains(&RelayEvent::Absent { peer: node_key(2) }));
    net.open(0, 9);
    net.assert_reach((0, 1), (client, 9));
}

/// Tells the relay of a removal that was made at `at`, by the coordinator's clock.
fn cut_off_at(net: &mut Net, id: Option<u64>, key: PublicKey, at: Duration) {
    let removal = Removal { network: NetworkTag([1; 16]), id: id.map(NodeId), key, at };
    let clocks = net.clocks();
    net.server.cut_off(&coordinator(1).verifying(), &removal, clocks);
    net.flush();
}

/// Returns another port of the same host.
fn other_port(number: u16) -> ClientAddress {
    address(30_000 + number)
}

/// A program with the node's former key still has an unexpired ticket. It cannot replace the binding of the newer key.
#[test]
fn fault_f17_a_former_key_does_not_replace_the_newer_one() {
    let mut net = Net::with(&[1]);
    let former = net.join(&node(7, 2, 0));
    net.run(Duration::from_millis(100));
    let later = net.join(&node(7, 3, 60));
    net.run(Duration::from_millis(100));
    // A ticket of version 1 does not name the node, so the former key shows its ticket of version 2.
    net.clients[former].1 =
        new_client(&Credentials { ticket: node(7, 2, 0).numbered.unwrap(), ..node(7, 2, 0) }, net.now);
    net.run(Duration::from_secs(10));
    assert!(!net.clients[former].1.is_ready() && net.clients[later].1.is_ready());
    assert!(net.server.tally().stale > 0);
}

#[test]
fn fault_f17_both_tickets_of_a_node_share_one_binding() {
    let mut net = Net::with(&[1]);
    let both = node(7, 2, 0);
    let plain = Credentials { numbered: None, ..both.clone() };
    let numbered = Credentials { ticket: both.numbered.clone().unwrap(), ..both };
    for credentials in [&plain, &numbered, &plain, &numbered] {
        let client = net.join(credentials);
        net.run(Duration::from_millis(100));
        assert!(net.clients[client].1.is_ready());
        assert_eq!(net.server.tally().clients, 2);
    }
}

/// The first bind shows the ticket of version 1. Its answer says that the relay accepts version 2, and a second bind shows that ticket while the first binding
/// stays in use.
#[test]
fn fault_f17_a_client_shows_the_numbered_ticket_once_the_relay_says_that_it_accepts_it() {
    let mut net = Net::with(&[1]);
    let client = net.join(&node(7, 2, 0));
    net.settle();
    let now = net.now;
    net.clients[client].1.handle_timeout(now, &mut net.random);
    net.settle();
    assert_eq!(net.events(client), [RelayEvent::Ready]);
    net.open(0, 2);
    net.assert_reach((0, 1), (client, 2));
    net.run(Duration::from_secs(600));
    assert_eq!(net.events(client).iter().filter(|event| matches!(event, RelayEvent::Lost(_))).count(), 0);
    net.assert_reach((0, 1), (client, 2));
    assert_eq!((net.server.tally().bound, net.server.tally().replaced), (3, 1));
    // The client remembers that the relay accepts version 2: after a restart of the relay it binds once.
    net.restart();
    net.run(Duration::from_secs(60));
    assert!(net.clients[client].1.is_ready());
    assert_eq!(net.server.tally().bound, 2, "both clients bind once each");
}

#[test]
fn fault_f17_a_relay_of_release_0_1_0_is_shown_only_version_1_and_binds_without_delay() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    net.server.is_release_0_1_0 = true;
    let client = net.join(&node(7, 2, 0));
    let now = net.now;
    net.clients[client].1.handle_timeout(now, &mut net.random);
    net.settle();
    assert_eq!((net.events(client), net.now), (vec![RelayEvent::Ready], now), "the client is bound without a delay");
    net.run(Duration::from_secs(600));
    assert_eq!((net.server.tally().bound, net.server.tally().not_authentic), (1, 0));
}

/// The relay is replaced by one of release 0.1.0, which does not answer a ticket of version 2.
#[test]
fn fault_f17_a_relay_that_became_older_is_shown_version_1_again() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let client = net.join(&node(7, 2, 0));
    net.run(Duration::from_secs(1));
    assert_eq!(net.server.tally().bound, 2);
    net.restart();
    net.server.is_release_0_1_0 = true;
    net.run(Duration::from_secs(40));
    assert!(net.clients[client].1.is_ready());
    assert_eq!(net.server.tally().bound, 1);
    // The relay is upgraded again, and the client shows its next ticket in version 2.
    net.restart();
    net.run(Duration::from_secs(700));
    let now = net.now;
    net.clients[client].1.set_credentials(node(7, 2, 60), now);
    net.run(Duration::from_secs(1));
    cut_off(&mut net, Some(7), 99);
    assert_eq!(
        net.server.tally().clients,
        0,
        "the removal by node id ended the binding, so the relay knew the client's id"
    );
}

#[test]
fn fault_f17_a_removed_node_is_cut_off_at_once_and_its_tickets_are_refused() {
    let mut net = Net::with(&[1]);
    let removed = net.join(&node(7, 2, 0));
    net.run(Duration::from_millis(100));
    net.open(0, 2);
    net.assert_reach((0, 1), (removed, 2));
    net.events(0);
    cut_off(&mut net, Some(7), 2);
    assert_eq!(net.events(0), [RelayEvent::Absent { peer: node_key(2) }]);
    assert_eq!(net.events(removed).last(), Some(&RelayEvent::Lost(LostCause::Expired)));
    assert_eq!(net.server.tally().clients, 1);
    // The relay refuses every ticket of the removed node, including one with its former key.
    let both = node(7, 2, 0);
    let former = Credentials { ticket: node(7, 3, 0).numbered.unwrap(), ..node(7, 3, 0) };
    let numbered = Credentials { ticket: both.numbered.clone().unwrap(), ..both.clone() };
    for (port, credentials) in [(1, &both), (2, &numbered), (3, &former)] {
        let bind = bind_of(credentials, &mut net.random, net.now);
        assert_eq!(net.receive(address(port), &bind), Err(Refused::CutOff), "{port}");
    }
    assert_eq!(net.server.tally().cut_off, 3);
    net.run(Duration::from_secs(600));
    assert_eq!(net.server.tally().clients, 1);
}

/// A node is removed after the relay answered its bind and before the node confirmed it.
#[test]
fn fault_f17_a_pending_bind_of_a_removed_node_is_dropped() {
    let mut net = Net::with(&[]);
    let mut client = new_client(&node(7, 2, 0), net.now);
    client.handle_timeout(net.now, &mut net.random);
    let bind = client.next_datagram().unwrap();
    let clocks = net.clocks();
    net.server.handle_frame(address(1), None, bind.as_bytes(), clocks, &mut net.random).unwrap();
    let bound = net.next_reply().unwrap();
    cut_off(&mut net, Some(7), 2);
    client.handle_datagram(bound.as_bytes(), net.now, &mut net.random);
    let ping = client.next_datagram().unwrap();
    assert_eq!(net.receive(address(1), ping.as_bytes()), Err(Refused::Unbound));
    assert_eq!(net.server.tally().clients, 0);
}

#[test]
fn fault_f17_a_removed_machine_that_joins_again_with_its_key_is_served_as_a_new_node() {
    let mut net = Net::with(&[]);
    cut_off(&mut net, Some(7), 2);
    let removed_at = net.now.since(Time::ZERO).as_secs();
    let client = net.join(&node(8, 2, removed_at + 1));
    net.run(Duration::from_secs(2));
    assert!(net.clients[client].1.is_ready());
    // A removal is forgotten once every ticket from before it has expired; the next removal triggers the cleanup.
    net.now = net.now + Duration::from_secs(4 * DAY);
    cut_off(&mut net, None, 3);
    assert_eq!(net.server.cut_off_count(), 1);
}

#[test]
fn fault_f17_members_of_another_network_with_the_same_number_are_not_cut_off() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let other = Terms { network: NetworkTag([2; 16]), id: Some(NodeId(7)), ..terms(4) };
    let ticket = Ticket::sign(&other, &coordinator(1));
    let client = net.join(&Credentials { bind: bind_key(4), ticket, numbered: None });
    net.run(Duration::from_millis(100));
    cut_off(&mut net, Some(7), 4);
    net.run(Duration::from_secs(60));
    assert!(net.clients[client].1.is_ready());
}

#[test]
fn fault_f17_many_removals_examine_each_entry_only_a_few_times() {
    let mut net = Net::new(RelayLimits::DEFAULT);
    let (number, at) = (10_000, net.clocks().wall);
    let key = |number: u64| PublicKey(std::array::from_fn(|index| number.to_le_bytes()[index % 8]));
    (0..number as u64).for_each(|node| cut_off_at(&mut net, Some(node), key(node), at));
    assert_eq!(net.server.cut_off_count(), 2 * number);
    // Each added entry examines the oldest one once.
    assert!(net.server.cut_offs_examined() <= 2 * number, "{}", net.server.cut_offs_examined());
    net.now = net.now + Duration::from_secs(4 * DAY);
    cut_off(&mut net, None, 3);
    assert_eq!(net.server.cut_off_count(), 1, "all of them have expired");
    assert!(net.server.cut_offs_examined() <= 4 * number + 2, "{}", net.server.cut_offs_examined());
}

/// The clock is ten years ahead when a node is removed, and correct again when its machine joins again.
#[test]
fn fault_f17_a_removal_while_the_clock_was_ahead_locks_out_no_key() {
    let mut net = Net::with(&[]);
    let (earlier, ahead) = (net.clocks().wall, Duration::from_secs(3_650 * DAY));
    cut_off_at(&mut net, Some(6), node_key(5), earlier);
    cut_off_at(&mut net, Some(7), node_key(2), earlier + ahead);
    assert_eq!(net.server.cut_off_count(), 4, "the earlier removal is not forgotten");
    net.now = net.now + Duration::from_secs(60);
    let from = net.server.taken_from(&coordinator(1).verifying(), NetworkTag([1; 16]), node_key(2), net.clocks());
    let from = from.unwrap();
    assert!(
        from <= net.clocks().wall.as_secs(),
        "a ticket of today must be accepted, but tickets are accepted only from {from} on"
    );
    let later = net.join(&node(8, 2, from - WALL));
    net.run(Duration::from_secs(2));
    assert!(net.clients[later].1.is_ready());
    let before = node(8, 2, 0);
    let bind = bind_of(&before, &mut net.random, net.now);
    assert_eq!(net.receive(address(1), &bind), Err(Refused::CutOff), "a ticket from before the removal");
}

/// The relay starts with a clock that is years behind, as on a board without a battery. It learns of earlier removals, and then a time server sets the clock.
#[test]
fn fault_f17_a_clock_that_was_behind_at_the_start_admits_no_removed_node() {
    let mut net = Net::with(&[]);
    let right = net.clocks();
    let behind = ServerClocks { wall: Duration::from_secs(1_000), ..right };
    cut_off_at(&mut net, None, node_key(2), right.wall);
    let from = |net: &Net, clocks| {
        net.server.taken_from(&coordinator(1).verifying(), NetworkTag([1; 16]), node_key(2), clocks).unwrap()
    };
    assert_eq!(from(&net, behind), 1_002);
    assert_eq!(from(&net, right), right.wall.as_secs() + 2);
    let bind = bind_of(&node(7, 2, 0), &mut net.random, net.now);
    assert_eq!(net.receive(address(1), &bind), Err(Refused::CutOff));
}
