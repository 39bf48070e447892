//! One network's members and the others'.

use std::sync::{Arc, Mutex};

use taut_netmap::JoinToken;
use tokio::task::JoinSet;

use super::world::{Coordinator, Directory, Host};
use crate::state::{Expiry, Places};
use crate::store::Party;

/// Changes of one network that wait at once: as if so many members had moved.
const CROWD: u16 = 60;

#[test]
fn fault_e21_one_networks_changes_leave_the_others_their_turn() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    coordinator.wait(coordinator.state.create_network("small", "10.0.0.0/24".parse().unwrap())).unwrap();
    let (_, _, token) = coordinator.wait(coordinator.state.create_key(Some("small"), true, Expiry::Default)).unwrap();
    let token: JoinToken = token.parse().unwrap();
    let large = coordinator.join("large");
    let small = Host::new().join(&coordinator, &token, "small").unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    coordinator.wait(async {
        let held = coordinator.state.store().write(Party::House).await.unwrap();
        let mut waiting = JoinSet::new();
        let mut change = |network, node, port: u16| {
            let (state, order) = (Arc::clone(&coordinator.state), Arc::clone(&order));
            let places = Places { listed: vec![([10, 9, 9, 9], port).into()], ports: Vec::new(), observed: Vec::new() };
            waiting.spawn(async move {
                state.set_endpoints(network, node, &places, [192, 0, 2, 9].into()).await.unwrap();
                order.lock().unwrap().push(node);
            });
        };
        for port in 1..=CROWD {
            change(large.network, large.id(), port);
        }
        // All of them stand in the queue before the other one comes.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        change(small.network, small.id(), 1);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        drop(held);
        while let Some(done) = waiting.join_next().await {
            done.unwrap();
        }
    });
    let order = order.lock().unwrap();
    let place = order.iter().position(|node| *node == small.id()).unwrap();
    assert_eq!(order.len(), usize::from(CROWD) + 1);
    assert!(place <= 3, "the only change of its network was number {place} of {}", order.len());
}
