//! Machines without an enrolment key that ask to join: `taut up` without a token.

use serde_json::json;
use taut_base::PrivateKey;
use taut_netmap::{JoinToken, NO_NETWORK, Problem, ProblemCode, Request, ToCoordinator, ToNode, Waiting, WaitingFor};

use super::world::{Directory, TestChannel, TestCoordinator, TestHost};
use crate::clock::unix_now;
use crate::contract::{NodeAnswer, RequestList};
use crate::state::{Approval, DeviceChange, random};

/// Returns the token with which a channel for no network is opened: only the coordinator's key in it counts.
fn place(token: &JoinToken) -> JoinToken {
    let mut place = token.clone();
    place.network = NO_NETWORK;
    place
}

fn asking(host: &TestHost, name: &str) -> ToCoordinator {
    let ToCoordinator::Hello(hello) = host.hello(None, 0) else { panic!() };
    ToCoordinator::Hello(taut_netmap::Hello { request: Some(Request { name: String::from(name) }), ..hello })
}

/// Opens a channel on which a machine asks. Returns the first answer.
fn ask(coordinator: &TestCoordinator, host: &TestHost, name: &str) -> (TestChannel, Result<Waiting, Problem>) {
    let mut channel = TestChannel::open(coordinator.address, &place(&coordinator.token()), &host.machine).unwrap();
    channel.send(&asking(host, name));
    let answer = match channel.receive().expect("an answer") {
        ToNode::Waiting(waiting) => Ok(waiting),
        ToNode::Refused(problem) => Err(problem),
        other => panic!("{other:?}"),
    };
    (channel, answer)
}

fn code(answer: Result<Waiting, Problem>) -> String {
    answer.unwrap().code.unwrap()
}

fn welcome(channel: &mut TestChannel) -> String {
    match channel.receive() {
        Some(ToNode::Welcome { network, .. }) => network,
        other => panic!("{other:?} is no welcome"),
    }
}

#[test]
fn a_machine_without_a_token_waits_is_seen_and_gets_in_when_a_person_approves_it() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut member = coordinator.join("member");
    let host = TestHost::new();
    let (mut channel, answer) = ask(&coordinator, &host, "Laptop.example");
    let waiting = answer.unwrap();
    let code = waiting.code.clone().unwrap();
    assert_eq!(waiting.reason, WaitingFor::Approval);
    assert_eq!(waiting.page.unwrap(), format!("http://127.0.0.1:8288/approve/{code}"));
    assert!(waiting.expires_in.is_some_and(|left| left > 800 && left <= 900));
    let listed: RequestList = coordinator.ask_for("GET", "/api/v1/requests", None);
    let request = &listed.requests[0];
    assert_eq!(
        (request.code.as_str(), request.name.as_str(), request.address.as_str()),
        (code.as_str(), "laptop", "127.0.0.1")
    );
    assert_eq!(request.machine, taut_netmap::fingerprint(&taut_noise::public_key(&host.machine)));
    // The channel stays open with pings and pongs while the machine waits for a person.
    channel.send(&ToCoordinator::Ping);
    assert_eq!(channel.receive(), Some(ToNode::Pong));
    // After any interruption the machine has the same code.
    let (mut again, answer) = ask(&coordinator, &host, "laptop");
    assert_eq!(self::code(answer), code);
    let typed = code.to_lowercase().replace('-', "");
    let body = r#"{"tags":["tag:laptop"],"owner":"ann"}"#;
    let node: NodeAnswer = coordinator.ask_for("POST", &format!("/api/v1/requests/{typed}/approve"), Some(body));
    assert_eq!((node.node.name.as_str(), node.node.owner.as_deref()), ("laptop", Some("ann")));
    let network = welcome(&mut channel);
    assert_eq!((network, welcome(&mut again)), (coordinator.network().to_string(), coordinator.network().to_string()));
    let joined = host.resume(&coordinator, &coordinator.token(), None).unwrap();
    assert_eq!(joined.map.me.name, "laptop");
    member.hear_until(|member| member.map.peers.contains_key(&joined.id()));
    // A machine that lost the welcome asks again, and gets it at once.
    let mut channel = TestChannel::open(coordinator.address, &place(&coordinator.token()), &host.machine).unwrap();
    channel.send(&asking(&host, "laptop"));
    welcome(&mut channel);
    // An approved code cannot be used again.
    let (status, answer) = coordinator.ask(
        "POST",
        &format!("/api/v1/requests/{code}/approve"),
        Some(coordinator.operator_token()),
        Some("{}"),
    );
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-request")));
}

#[test]
fn fault_e6_a_request_is_bound_to_both_keys_of_its_machine() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let victim = TestHost::new();
    let (mut channel, answer) = ask(&coordinator, &victim, "victim");
    let first = code(answer);
    // Another machine asks with the victim's WireGuard key: it gets a request of its own.
    let thief = TestHost { machine: PrivateKey::from_bytes(random()), ..victim.clone() };
    let (mut stolen, answer) = ask(&coordinator, &thief, "victim");
    let other = code(answer);
    assert_ne!(other, first);
    // The same machine asks with another WireGuard key: it gets another code, so a person cannot approve the former request for it.
    let changed = TestHost { node: TestHost::new().node, ..victim.clone() };
    let (_channel, answer) = ask(&coordinator, &changed, "victim");
    assert_ne!(code(answer), first);
    assert!(coordinator.wait(coordinator.state.approve_request(&first, Approval::default())).is_err());
    // The approval of the victim is its own, and its WireGuard key then belongs to its machine.
    let (mut channel_again, answer) = ask(&coordinator, &victim, "victim");
    coordinator.wait(coordinator.state.approve_request(&code(answer), Approval::default())).unwrap();
    welcome(&mut channel_again);
    assert!(matches!(channel.receive(), Some(ToNode::Waiting(_) | ToNode::Welcome { .. }) | None));
    assert!(
        coordinator.wait(coordinator.state.approve_request(&other, Approval::default())).is_err(),
        "the key has an owner"
    );
    // No other machine gets the victim's place, however it asks.
    match thief.resume(&coordinator, &coordinator.token(), None) {
        Err(problem) => assert!(matches!(problem.code, ProblemCode::KeyConflict), "{problem}"),
        Ok(_) => panic!("the thief is a member"),
    }
    stolen.send(&ToCoordinator::Ping);
    assert_eq!(stolen.receive(), Some(ToNode::Pong), "no welcome came before it");
}

#[test]
fn a_denied_machine_is_told_and_does_not_ask_again_at_once() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let host = TestHost::new();
    let (mut channel, answer) = ask(&coordinator, &host, "a");
    let code = code(answer);
    let (status, answer) =
        coordinator.ask("DELETE", &format!("/api/v1/requests/{code}"), Some(coordinator.operator_token()), None);
    assert_eq!((status, &answer["denied"]), (200, &json!(code)));
    match channel.receive() {
        Some(ToNode::Refused(problem)) => assert!(problem.code == ProblemCode::Denied && problem.code.is_final()),
        other => panic!("{other:?}"),
    }
    assert_eq!(ask(&coordinator, &host, "a").1.unwrap_err().code, ProblemCode::Denied);
    assert!(coordinator.wait(coordinator.state.requests()).unwrap().is_empty());
    coordinator.wait(coordinator.state.store().edit("UPDATE requests SET expires_at = 1"));
    assert!(ask(&coordinator, &host, "a").1.is_ok(), "ten minutes later");
}

#[test]
fn fault_e11_requests_of_one_address_are_bounded_and_a_machine_keeps_its_own() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let hosts: Vec<TestHost> = (0..9).map(|_| TestHost::new()).collect();
    let answers: Vec<bool> = hosts.iter().map(|host| ask(&coordinator, host, "n").1.is_ok()).collect();
    assert_eq!(answers, [true, true, true, true, true, true, true, true, false]);
    let problem = ask(&coordinator, &hosts[8], "n").1.unwrap_err();
    assert!(problem.code == ProblemCode::TooOften && !problem.code.is_final(), "{problem}");
    assert!(ask(&coordinator, &hosts[0], "n").1.is_ok(), "it has one");
    assert!(ask(&coordinator, &hosts[7], "n").1.is_ok());
    // An expired request makes room for another one.
    coordinator.wait(coordinator.state.store().edit("UPDATE requests SET expires_at = 1"));
    assert!(ask(&coordinator, &hosts[8], "n").1.is_ok());
}

#[test]
fn a_machine_that_asks_for_nothing_is_no_member() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let host = TestHost::new();
    let mut channel = TestChannel::open(coordinator.address, &place(&coordinator.token()), &host.machine).unwrap();
    channel.send(&host.hello(None, 0));
    match channel.receive() {
        Some(ToNode::Refused(problem)) => assert_eq!(problem.code, ProblemCode::NotAMember),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_expired_member_asks_a_person_and_is_renewed_as_itself() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("node");
    let expire = DeviceChange { expire: true, ..DeviceChange::default() };
    coordinator.wait(coordinator.state.change_device(None, "node", expire)).unwrap();
    node.hear_until(|node| node.waiting.is_some());
    assert_eq!(node.waiting.as_ref().unwrap().code, None, "it did not ask");
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &node.host.machine).unwrap();
    channel.send(&asking(&node.host, "node"));
    let code = loop {
        if let ToNode::Waiting(waiting) = channel.receive().expect("the code") {
            break waiting.code.expect("a code");
        }
    };
    // While the machine waits, a code that expires is replaced by another one.
    let change = format!("UPDATE requests SET expires_at = {}", unix_now() + 2).leak();
    coordinator.wait(coordinator.state.store().edit(change));
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &node.host.machine).unwrap();
    channel.send(&asking(&node.host, "node"));
    let mut codes = Vec::new();
    while codes.len() < 2 {
        if let ToNode::Waiting(waiting) = channel.receive().expect("the code") {
            codes.push(waiting.code.expect("a code"));
        }
    }
    assert!(codes[0] == code && codes[1] != code, "{codes:?} {code}");
    let code = codes.pop().unwrap();
    let listed: RequestList = coordinator.ask_for("GET", "/api/v1/requests", None);
    assert_eq!(listed.requests[0].node.as_deref(), Some("node"));
    let renewed: NodeAnswer = coordinator.ask_for("POST", &format!("/api/v1/requests/{code}/approve"), Some("{}"));
    assert_eq!((renewed.node.id, &renewed.node.addresses), (node.id(), &node.map.me.addresses));
    loop {
        if let ToNode::Map(map) = channel.receive().expect("a map") {
            assert_eq!(map.me, node.map.me);
            break;
        }
    }
}

#[test]
fn the_page_of_a_code_tells_strangers_nothing_and_runs_only_its_own_script() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let get = |path: &str| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut response = agent.get(format!("http://{}{path}", coordinator.address)).call().unwrap();
        let policy = response.headers().get("content-security-policy").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), policy, response.body_mut().read_to_string().unwrap())
    };
    let (status, policy, page) = get("/approve/BCDF-GHJK");
    let policy = policy.unwrap();
    assert!(status == 200 && policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(page.contains("BCDF-GHJK") && !page.contains('{') && !page.contains("/oidc/"), "{page}");
    assert_eq!((page.matches("<script").count(), page.matches("<script src=\"/approve.js\">").count()), (1, 1));
    for file in ["/approve.js", "/pages.css"] {
        assert_eq!(get(file).0, 200, "{file}");
    }
    // The page of a code that waits differs in the code alone.
    let (_channel, answer) = ask(&coordinator, &TestHost::new(), "secret-host");
    let waits = code(answer);
    assert_eq!(get(&format!("/approve/{waits}")).2.replace(&waits, "BCDF-GHJK"), page);
    for code in ["x", "%3Cscript%3E", "BCDF-GHJK%3Cb%3E", "BCDF-GHJ1"] {
        assert_eq!(get(&format!("/approve/{code}")).0, 404, "{code}");
    }
    let (status, _, key) = get("/key");
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    assert_eq!((status, &key["key"]), (200, &json!(coordinator.token().coordinator.to_string())));
}

#[test]
fn fault_f17_a_former_key_is_not_approved_again() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let former = coordinator.join("a").host;
    let changed = TestHost { node: TestHost::new().node, ..former.clone() };
    changed.resume(&coordinator, &coordinator.token(), None).unwrap();
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    // An old copy of the machine asks: relays and peers were told that its key is no longer the machine's.
    let (_channel, answer) = ask(&coordinator, &former, "a");
    let path = format!("/api/v1/requests/{}/approve", code(answer));
    let (status, answer) = coordinator.ask("POST", &path, Some(coordinator.operator_token()), Some("{}"));
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("key-revoked")), "{answer}");
}
