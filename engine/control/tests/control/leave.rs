//! A node that gives up its membership.

use std::thread;

use taut_base::PublicKey;
use taut_control::{Command, ControlEvent, Left};
use taut_netmap::{Problem, ProblemCode, ToCoordinator, ToNode};
use taut_noise::public_key;

use crate::coordinator::{Coordinator, Session, map};
use crate::node::{Node, StateDir};

fn joined(coordinator: &Coordinator, state: &StateDir) -> (Node, Session, PublicKey) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let key = public_key(&node.identity().node_key);
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&ToNode::Map(map(5, key, 1)));
    assert_eq!(node.map().version, 5);
    (node, session, key)
}

fn refusal(code: ProblemCode) -> ToNode {
    ToNode::Refused(Problem { code, message: String::from("no"), hint: String::from("ask") })
}

fn left(node: &Node) -> Left {
    node.expect(|event| if let ControlEvent::Left(left) = event { Some(left) } else { None })
}

/// Returns the names of the files in the state directory, without the lock.
fn files(state: &StateDir) -> Vec<String> {
    let names = std::fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name != "lock").collect()
}

#[test]
fn the_coordinator_is_told_before_the_keys_are_removed() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state);
    node.send(Command::Leave);
    node.expect(|event| matches!(event, ControlEvent::Leaving).then_some(()));
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.receive(), Some(ToCoordinator::Ping)));
    assert!(files(&state).iter().any(|name| name == "identity.json"), "the channel needs the keys until the end");
    session.send(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    // Commands that the agent sent before it received `Left` have no effect.
    node.send(Command::RememberStamps(std::time::Duration::from_secs(1)));
    node.send(Command::Up);
    node.expect(|event| matches!(event, ControlEvent::NeedsJoin).then_some(()));

    node.join(coordinator.token());
    assert_ne!(public_key(&node.identity().node_key), key, "another membership has other keys");
    let hello = coordinator.accept().receive_hello();
    assert!(hello.enrol.is_some() && hello.have == 0);
    node.stop();
    assert!(matches!(Node::start(&state).event(), ControlEvent::Identity(_)), "and is kept");
}

#[test]
fn a_coordinator_of_release_0_1_0_continues_to_list_the_node() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Leave);
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.receive(), Some(ToCoordinator::Ping)));
    session.send(&ToNode::Pong);
    let Left { listed, leftover } = left(&node);
    assert!(listed.unwrap().contains("version") && leftover.is_none());
    assert!(session.receive().is_none(), "the channel is closed");
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

#[test]
fn a_node_that_is_down_connects_again_to_leave() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Down);
    while session.receive().is_some() {}
    node.send(Command::Leave);
    let mut session = coordinator.accept();
    assert!(session.receive_hello().enrol.is_none());
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    session.send(&refusal(ProblemCode::Unavailable));
    let Left { listed, leftover } = left(&node);
    assert_eq!((listed.as_deref(), leftover), (Some("no; ask"), None));
    node.stop();
}

#[test]
fn a_channel_that_breaks_before_the_answer_is_reopened() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Leave);
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    drop(session);
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node).listed, None, "the first leave was received");
    node.stop();
}

#[test]
fn a_program_that_ends_before_the_answer_has_left() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session, _) = joined(&coordinator, &state);
    drop((coordinator, session));
    node.disconnected();
    node.send(Command::Leave);
    node.expect(|event| matches!(event, ControlEvent::Leaving).then_some(()));
    node.stop();
    assert_eq!(files(&state), Vec::<String>::new());
    let node = Node::start(&state);
    assert!(matches!(node.event(), ControlEvent::NeedsJoin));
    node.send(Command::Leave);
    assert!(matches!(node.event(), ControlEvent::NeedsJoin), "there is nothing to leave");
    node.stop();
}

#[test]
fn fault_e17_a_node_leaves_while_frames_come_without_end() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    let flood = thread::spawn(move || session.flood());
    node.send(Command::Leave);
    node.expect(|event| matches!(event, ControlEvent::Leaving).then_some(()));
    assert!(left(&node).listed.is_some(), "the coordinator did not answer");
    assert_eq!(files(&state), Vec::<String>::new());
    assert!(flood.join().unwrap());
    node.stop();
}

#[test]
fn a_node_that_was_removed_leaves_without_a_message() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    session.send(&refusal(ProblemCode::NotAMember));
    node.expect(|event| matches!(event, ControlEvent::Refused(_)).then_some(()));
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

/// Returns a node whose hello with an enrolment secret was received and not answered.
fn unanswered(coordinator: &Coordinator, state: &StateDir) -> (Node, Session) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    assert!(session.receive_hello().enrol.is_some());
    (node, session)
}

#[test]
fn fault_n12_a_node_that_is_being_enrolled_is_removed_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    let key = public_key(&node.identity().node_key);
    node.send(Command::Leave);
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.receive(), Some(ToCoordinator::Ping)));
    assert!(files(&state).iter().any(|name| name == "identity.json"), "the node waits for the answer");
    session.send(&ToNode::Map(map(5, key, 1)));
    session.send(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

#[test]
fn fault_n12_a_lost_channel_is_reopened_and_the_secret_is_sent_again() {
    for (code, listed) in [(ProblemCode::Enrolment, None), (ProblemCode::Unavailable, Some("no; ask"))] {
        let (coordinator, state) = (Coordinator::start(), StateDir::new());
        let (node, session) = unanswered(&coordinator, &state);
        node.send(Command::Leave);
        drop(session);
        let mut session = coordinator.accept();
        assert!(session.receive_hello().enrol.is_some());
        assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
        session.send(&refusal(code));
        assert_eq!(left(&node).listed.as_deref(), listed, "{code:?}");
        node.stop();
    }
}

#[test]
fn fault_n12_the_unanswered_hello_is_remembered_over_a_restart() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session) = unanswered(&coordinator, &state);
    drop(session);
    node.send(Command::Down);
    node.stop();
    let node = Node::start(&state);
    node.send(Command::Leave);
    let mut session = coordinator.accept();
    assert!(session.receive_hello().enrol.is_some());
    assert!(matches!(session.receive(), Some(ToCoordinator::Leave)));
    session.send(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node).listed, None);
    node.stop();
}

#[test]
fn fault_n12_another_network_can_be_joined_only_after_the_first_has_answered() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    let mut token = coordinator.token();
    token.network = [2; 16];
    node.join(token.clone());
    let refused = |event| if let ControlEvent::Refused(problem) = event { Some(problem) } else { None };
    assert!(node.expect(refused).message.contains("no answer yet"));
    session.send(&refusal(ProblemCode::Enrolment));
    assert_eq!(node.expect(refused).code, ProblemCode::Enrolment);
    node.join(token);
    assert_eq!(node.identity().network, [2; 16]);
    node.stop();
}

#[test]
fn a_node_that_was_refused_or_never_said_hello_leaves_without_a_message() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    session.send(&refusal(ProblemCode::Enrolment));
    node.expect(|event| matches!(event, ControlEvent::Refused(_)).then_some(()));
    node.stop();
    // The node dials again, but the connection is not accepted, so it sends no hello.
    let node = Node::start(&state);
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    node.join(coordinator.token());
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    node.stop();
}
