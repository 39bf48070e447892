//! Panics while maps are made harm no other map, and no channel (fault N7).

use std::sync::atomic::Ordering;
use std::time::Instant;

use taut_netmap::{ProblemCode, ToCoordinator, ToNode};

use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::state::{Expiry, PANIC_PAUSE, poison::PANICS};

/// Asserts that the channel is open and answers.
#[track_caller]
fn is_served(node: &mut TestNode) {
    node.channel.send(&ToCoordinator::Ping);
    loop {
        match node.channel.receive().expect("an open channel") {
            ToNode::Pong => return,
            ToNode::Refused(problem) => panic!("{problem}"),
            ToNode::Delta(delta) => node.map = node.map.apply(&delta).unwrap(),
            ToNode::Map(map) => {
                map.check().unwrap();
                node.map = map;
            }
            _ => {}
        }
    }
}

#[test]
fn fault_n7_a_panic_while_maps_are_made_harms_neither_other_maps_nor_channels() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let state = &coordinator.state;
    coordinator.wait(state.create_network("other", "10.9.0.0/16".parse().unwrap())).unwrap();
    let key = coordinator.wait(state.create_key(Some("other"), true, Expiry::Never)).unwrap();
    let (token, far_token) = (coordinator.token(), key.2.parse().unwrap());
    let mut far = TestHost::new().join(&coordinator, &far_token, "far").unwrap();
    let (mut good, mut victim) = (coordinator.join("good"), coordinator.join("victim"));
    let name = |node: &TestNode, id| node.map.peers.get(&id).map(|peer| peer.name.clone());
    let victim_id = victim.id();
    let rename =
        |name: &str| drop(coordinator.wait(state.rename_node(Some("default"), &victim_id.to_string(), name)).unwrap());

    // The map of one node.
    rename("poison-map");
    good.hear_until(|good| name(good, victim_id).as_deref() == Some("poison-map"));
    let before = victim.map.clone();
    is_served(&mut victim);
    let refused = victim.host.resume(&coordinator, &token, Some(before.clone())).err().unwrap();
    assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final(), "{refused}");
    is_served(&mut good);
    let mut victim = loop {
        rename("healed");
        if let Ok(back) = victim.host.resume(&coordinator, &token, Some(before.clone())) {
            break back;
        }
    };
    assert_eq!(victim.map.me.name, "healed");
    good.hear_until(|good| name(good, victim_id).as_deref() == Some("healed"));

    // The maps of a network.
    let (panics, began) = (PANICS.load(Ordering::Relaxed), Instant::now());
    let kept = good.map.clone();
    rename("poison-row");
    for _ in 0..20 {
        is_served(&mut good);
        is_served(&mut victim);
        assert_eq!(good.map, kept, "it keeps its map");
        is_served(&mut far);
        let back = far.host.resume(&coordinator, &far_token, Some(far.map.clone()));
        far = back.expect("another network is served");
        let refused = TestHost::new().join(&coordinator, &token, "new").err();
        assert!(refused.is_none_or(|problem| problem.code == ProblemCode::Unavailable));
    }
    let most = 2 + began.elapsed().as_secs() / PANIC_PAUSE.as_secs();
    let panicked = u64::from(PANICS.load(Ordering::Relaxed) - panics);
    assert!((1..=most).contains(&panicked), "{panicked} panics: what panics is not tried without end");
    rename("victim");
    good.hear_until(|good| name(good, victim_id).as_deref() == Some("victim"));
    victim.hear_until(|victim| victim.map.me.name == "victim");
    assert_eq!((good.map.clone(), good.wholes), (good.fresh_map(&coordinator), 1), "its channel was open all the time");
}
