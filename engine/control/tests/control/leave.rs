//! A node that gives up its membership.

use std::thread;

use taut_base::PublicKey;
use taut_control::{Command, Event, Left};
use taut_netmap::{Problem, ProblemCode, ToCoordinator, ToNode};
use taut_noise::public_key;

use crate::coordinator::{Coordinator, Session, map};
use crate::node::{Node, StateDir};

fn joined(coordinator: &Coordinator, state: &StateDir) -> (Node, Session, PublicKey) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let key = public_key(&node.identity().node_key);
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&ToNode::Map(map(5, key, 1)));
    assert_eq!(node.map().version, 5);
    (node, session, key)
}

fn refusal(code: ProblemCode) -> ToNode {
    ToNode::Refused(Problem { code, message: String::from("no"), hint: String::from("ask") })
}

fn left(node: &Node) -> Left {
    node.expect(|event| if let Event::Left(left) = event { Some(left) } else { None })
}

/// Names in the state directory.
fn files(state: &StateDir) -> Vec<String> {
    let names = std::fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name != "lock").collect()
}

#[test]
fn the_coordinator_is_told_and_then_the_keys_go() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state);
    node.send(Command::Leave);
    node.expect(|event| matches!(event, Event::Leaving).then_some(()));
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.hear(), Some(ToCoordinator::Ping)));
    assert!(files(&state).iter().any(|name| name == "identity.json"), "the channel needs the keys until the end");
    session.say(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    // What the agent says before it hears of it changes nothing.
    node.send(Command::RememberStamps(std::time::Duration::from_secs(1)));
    node.send(Command::Up);
    node.expect(|event| matches!(event, Event::NeedsJoin).then_some(()));

    node.join(coordinator.token());
    assert_ne!(public_key(&node.identity().node_key), key, "another membership has other keys");
    let hello = coordinator.accept().hear_hello();
    assert!(hello.enrol.is_some() && hello.have == 0);
    node.stop();
    assert!(matches!(Node::start(&state).event(), Event::Identity(_)), "and is kept");
}

#[test]
fn a_coordinator_of_release_0_1_0_goes_on_listing_the_node() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Leave);
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.hear(), Some(ToCoordinator::Ping)));
    session.say(&ToNode::Pong);
    let Left { listed, leftover } = left(&node);
    assert!(listed.unwrap().contains("version") && leftover.is_none());
    assert!(session.hear().is_none(), "the channel is closed");
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

#[test]
fn a_node_that_is_down_connects_once_more_to_say_it() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Down);
    while session.hear().is_some() {}
    node.send(Command::Leave);
    let mut session = coordinator.accept();
    assert!(session.hear_hello().enrol.is_none());
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    session.say(&refusal(ProblemCode::Unavailable));
    let Left { listed, leftover } = left(&node);
    assert_eq!((listed.as_deref(), leftover), (Some("no; ask"), None));
    node.stop();
}

#[test]
fn a_channel_that_breaks_before_the_answer_is_opened_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    node.send(Command::Leave);
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    drop(session);
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node).listed, None, "it had been heard");
    node.stop();
}

#[test]
fn a_program_that_ends_before_the_answer_has_left_too() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session, _) = joined(&coordinator, &state);
    drop((coordinator, session));
    node.disconnected();
    node.send(Command::Leave);
    node.expect(|event| matches!(event, Event::Leaving).then_some(()));
    node.stop();
    assert_eq!(files(&state), Vec::<String>::new());
    let node = Node::start(&state);
    assert!(matches!(node.event(), Event::NeedsJoin));
    node.send(Command::Leave);
    assert!(matches!(node.event(), Event::NeedsJoin), "there is nothing to leave");
    node.stop();
}

#[test]
fn fault_e17_a_node_leaves_while_frames_come_without_end() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    let flood = thread::spawn(move || session.flood());
    node.send(Command::Leave);
    node.expect(|event| matches!(event, Event::Leaving).then_some(()));
    assert!(left(&node).listed.is_some(), "the coordinator did not answer");
    assert_eq!(files(&state), Vec::<String>::new());
    assert!(flood.join().unwrap());
    node.stop();
}

#[test]
fn a_node_that_was_removed_leaves_without_a_word() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state);
    session.say(&refusal(ProblemCode::NotAMember));
    node.expect(|event| matches!(event, Event::Refused(_)).then_some(()));
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

/// A node whose hello with an enrolment secret was heard and not answered.
fn unanswered(coordinator: &Coordinator, state: &StateDir) -> (Node, Session) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    assert!(session.hear_hello().enrol.is_some());
    (node, session)
}

#[test]
fn fault_n12_a_node_that_is_being_enrolled_is_removed_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    let key = public_key(&node.identity().node_key);
    node.send(Command::Leave);
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    assert!(matches!(session.hear(), Some(ToCoordinator::Ping)));
    assert!(files(&state).iter().any(|name| name == "identity.json"), "the answer is waited for");
    session.say(&ToNode::Map(map(5, key, 1)));
    session.say(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    assert_eq!(files(&state), Vec::<String>::new());
    node.stop();
}

#[test]
fn fault_n12_a_lost_channel_is_opened_again_and_shows_the_secret() {
    for (code, listed) in [(ProblemCode::Enrolment, None), (ProblemCode::Unavailable, Some("no; ask"))] {
        let (coordinator, state) = (Coordinator::start(), StateDir::new());
        let (node, session) = unanswered(&coordinator, &state);
        node.send(Command::Leave);
        drop(session);
        let mut session = coordinator.accept();
        assert!(session.hear_hello().enrol.is_some());
        assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
        session.say(&refusal(code));
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
    assert!(session.hear_hello().enrol.is_some());
    assert!(matches!(session.hear(), Some(ToCoordinator::Leave)));
    session.say(&refusal(ProblemCode::NotAMember));
    assert_eq!(left(&node).listed, None);
    node.stop();
}

#[test]
fn fault_n12_another_network_waits_for_the_answer_of_the_first() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    let mut token = coordinator.token();
    token.network = [2; 16];
    node.join(token.clone());
    let refused = |event| if let Event::Refused(problem) = event { Some(problem) } else { None };
    assert!(node.expect(refused).message.contains("no answer yet"));
    session.say(&refusal(ProblemCode::Enrolment));
    assert_eq!(node.expect(refused).code, ProblemCode::Enrolment);
    node.join(token);
    assert_eq!(node.identity().network, [2; 16]);
    node.stop();
}

#[test]
fn a_node_that_was_refused_or_never_said_hello_leaves_without_a_word() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = unanswered(&coordinator, &state);
    session.say(&refusal(ProblemCode::Enrolment));
    node.expect(|event| matches!(event, Event::Refused(_)).then_some(()));
    node.stop();
    // It dials again, and nobody answers: the hello is not sent.
    let node = Node::start(&state);
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    node.join(coordinator.token());
    node.send(Command::Leave);
    assert_eq!(left(&node), Left { listed: None, leftover: None });
    node.stop();
}
