//! The tests that a policy contains: which nodes they are about, and when they hold.
#![expect(clippy::panic, reason = "tests may stop at the first surprise")]

use taut_policy::{Inventory, NodeFacts, Policy, Role, UserFacts, run_tests};

const NAMES: &str = r#""groups": {"group:dev": ["ann@example.com", "bob@example.com"], "group:none": []},
"tagOwners": {"tag:web": [], "tag:db": []}, "hosts": {"box": "100.64.0.9", "lan7": "10.0.0.7"},"#;

/// Runs one test of a policy. Returns the failures, or an empty text if all entries passed.
fn failures(rules: &str, test: &str, inventory: &Inventory) -> String {
    let text = format!("{{{NAMES}\n\"grants\": [{rules}],\n\"tests\": [{{{test}}}]}}");
    let policy = Policy::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let outcomes = run_tests(&policy, inventory);
    assert!(!outcomes.is_empty());
    let failed = outcomes.iter().filter_map(|outcome| {
        let failure = outcome.failure.as_ref()?;
        Some(format!("{}: {}", outcome.connection, failure))
    });
    failed.collect::<Vec<_>>().join("; ")
}

/// Runs a test without nodes.
fn alone(rules: &str, test: &str) -> String {
    failures(rules, test, &Inventory::default())
}

const WEB: &str = r#"{"src": ["group:dev"], "dst": ["tag:web"], "ip": ["tcp:80"]}"#;

#[test]
fn identities_need_no_nodes() {
    for test in [
        r#""src": "ann@example.com", "accept": ["tag:web:80"], "deny": ["tag:web:81", "tag:db:80", "bob@example.com:80"]"#,
        r#""src": "group:dev", "accept": ["tag:web:80"]"#,
        r#""src": "eve@example.com", "deny": ["tag:web:80"]"#,
        r#""src": "tag:web", "deny": ["tag:web:80"]"#,
        r#""src": "ann@example.com", "proto": "tcp", "accept": ["tag:web:80"]"#,
        r#""src": "ann@example.com", "proto": "udp", "deny": ["tag:web:80"]"#,
        r#""src": "ann@example.com", "proto": "icmp", "accept": ["tag:web:0"], "deny": ["tag:db:0"]"#,
        r#""src": "ann@example.com", "proto": "gre", "deny": ["tag:web:0"]"#,
    ] {
        assert_eq!(alone(WEB, test), "", "{test}");
    }
}

#[test]
fn failures_say_why() {
    assert_eq!(
        alone(WEB, r#""src": "ann@example.com", "accept": ["tag:web:443"]"#),
        "ann@example.com -> tag:web:443: denied from ann@example.com to tag:web: no rule allows it"
    );
    assert_eq!(
        alone(WEB, r#""src": "ann@example.com", "proto": "tcp", "deny": ["tag:web:80"]"#),
        "ann@example.com -> tag:web:80 (tcp): allowed from ann@example.com to tag:web by the rule at line 3"
    );
    assert_eq!(
        alone(WEB, r#""src": "group:none", "deny": ["tag:web:80"]"#),
        "group:none -> tag:web:80: `group:none` has no members"
    );
    let six = r#"{"src": ["fd00::1"], "dst": ["fd00::2"], "ip": ["*"]}"#;
    assert_eq!(
        alone(six, r#""src": "fd00::1", "deny": ["[fd00::2]:22"]"#),
        "fd00::1 -> [fd00::2]:22: allowed from fd00::1 to fd00::2 by the rule at line 3"
    );
}

#[test]
fn each_kind_of_identity_gets_a_node() {
    for (src, word) in [
        ("autogroup:owner", "autogroup:owner"),
        ("autogroup:it-admin", "autogroup:it-admin"),
        ("autogroup:member", "ann@example.com"),
        ("autogroup:member", "autogroup:admin"),
        ("autogroup:tagged", "tag:db"),
        ("autogroup:tagged", "autogroup:tagged"),
        ("autogroup:member", "autogroup:member"),
        ("group:it@example.com", "group:it@example.com"),
        ("user:*@example.com", "ann@example.com"),
        ("*", "tag:db"),
    ] {
        let rule = format!("{{\"src\": [\"{src}\"], \"dst\": [\"tag:web\"], \"ip\": [\"22\"]}}");
        assert_eq!(alone(&rule, &format!("\"src\": \"{word}\", \"accept\": [\"tag:web:22\"]")), "", "{word}");
        let other = rule.replace(src, "tag:web");
        assert_eq!(alone(&other, &format!("\"src\": \"{word}\", \"deny\": [\"tag:web:22\"]")), "", "{word}");
    }
}

#[test]
fn addresses_without_nodes() {
    let rule = |src: &str, dst: &str| format!("{{\"src\": [\"{src}\"], \"dst\": [\"{dst}\"], \"ip\": [\"22\"]}}");
    let accept = |src: &str, dst: &str| format!("\"src\": \"{src}\", \"accept\": [\"{dst}:22\"]");
    assert_eq!(alone(&rule("box", "lan7"), &accept("box", "lan7")), "");
    assert_eq!(alone(&rule("*", "*"), &accept("box", "10.0.0.7")), "");
    assert_eq!(alone(&rule("100.64.0.0/24", "10.0.0.0/8"), &accept("100.64.0.9", "lan7")), "");
    assert_eq!(alone(&rule("ann@example.com", "10.0.0.0/8"), &accept("ann@example.com", "10.0.0.7")), "");
    assert_ne!(alone(&rule("100.64.0.0/29", "10.0.0.0/8"), &accept("100.64.0.9", "lan7")), "");
    assert_ne!(alone(&rule("box", "10.0.0.0/30"), &accept("box", "lan7")), "");
}

fn node(name: &str, address: &str, user: Option<&str>, tags: &[&str]) -> NodeFacts {
    NodeFacts {
        name: String::from(name),
        addresses: address.parse().into_iter().collect(),
        user: user.map(String::from),
        tags: tags.iter().map(|tag| String::from(*tag)).collect(),
        routes: Vec::new(),
    }
}

fn network() -> Inventory {
    let mut router = node("router", "100.64.0.5", None, &[]);
    router.routes.extend("10.0.0.0/24".parse::<taut_base::Prefix>());
    let nodes = vec![
        node("ann1", "100.64.0.1", Some("ann@example.com"), &[]),
        node("ann2", "100.64.0.2", Some("ann@example.com"), &[]),
        node("web1", "100.64.0.3", None, &["tag:web"]),
        node("web2", "100.64.0.4", None, &["tag:web"]),
        router,
    ];
    Inventory { nodes, ..Inventory::default() }
}

#[test]
fn real_nodes_stand_for_their_identities() {
    let one = r#"{"src": ["100.64.0.1"], "dst": ["tag:web"], "ip": ["80"]}"#;
    assert_eq!(
        failures(one, r#""src": "ann@example.com", "accept": ["tag:web:80"]"#, &network()),
        "ann@example.com -> tag:web:80: denied from ann2 to web1: no rule allows it"
    );
    assert_eq!(
        failures(one, r#""src": "ann@example.com", "deny": ["tag:web:80"]"#, &network()),
        "ann@example.com -> tag:web:80: allowed from ann1 to web1 by the rule at line 3"
    );
    let all = r#"{"src": ["100.64.0.0/30"], "dst": ["tag:web"], "ip": ["80"]}"#;
    assert_eq!(
        failures(all, r#""src": "ann@example.com", "accept": ["tag:web:80"], "deny": ["tag:web:81"]"#, &network()),
        ""
    );
    let half = r#"{"src": ["ann@example.com"], "dst": ["100.64.0.3"], "ip": ["80"]}"#;
    assert_eq!(
        failures(half, r#""src": "ann@example.com", "accept": ["tag:web:80"]"#, &network()),
        "ann@example.com -> tag:web:80: denied from ann1 to web2: no rule allows it"
    );
    assert_eq!(
        failures(
            half,
            r#""src": "ann@example.com", "accept": ["100.64.0.3:80"], "deny": ["100.64.0.4:80"]"#,
            &network()
        ),
        ""
    );
}

#[test]
fn addresses_outside_of_a_network_are_addresses() {
    let any = r#"{"src": ["*"], "dst": ["*"], "ip": ["*"]}"#;
    assert_eq!(failures(any, r#""src": "10.0.0.8", "accept": ["tag:web:22"]"#, &network()), "", "an approved subnet");
    assert_eq!(failures(any, r#""src": "10.9.0.8", "deny": ["tag:web:22"]"#, &network()), "", "a foreign address");
    assert_eq!(failures(any, r#""src": "box", "deny": ["tag:web:22"]"#, &network()), "", "no node has it");
    assert_eq!(failures(any, r#""src": "ann@example.com", "accept": ["lan7:22", "10.77.0.1:22"]"#, &network()), "");
    let mut ours = network();
    ours.prefixes.extend("100.64.0.0/10".parse::<taut_base::Prefix>());
    assert_eq!(failures(any, r#""src": "box", "accept": ["tag:web:22"]"#, &ours), "", "an address of the network");
    let literal = r#"{"src": ["10.9.0.8"], "dst": ["tag:web"], "ip": ["22"]}"#;
    assert_eq!(failures(literal, r#""src": "10.9.0.8", "accept": ["tag:web:22"]"#, &network()), "");
}

#[test]
fn unknown_users_fail_where_users_are_known() {
    let mut inventory = network();
    let test = r#""src": "typo@example.com", "deny": ["tag:web:80"]"#;
    assert_eq!(failures(WEB, test, &inventory), "", "the users are not listed");
    inventory.users.push(UserFacts { name: String::from("bob@example.com"), role: Role::Member, groups: Vec::new() });
    assert_eq!(failures(WEB, test, &inventory), "typo@example.com -> tag:web:80: there is no user `typo@example.com`");
    assert_eq!(failures(WEB, r#""src": "bob@example.com", "accept": ["tag:web:80"]"#, &inventory), "");
    assert_eq!(
        failures(WEB, r#""src": "ann@example.com", "accept": ["tag:web:80"]"#, &inventory),
        "",
        "an owner of nodes"
    );
    assert_eq!(
        failures(WEB, r#""src": "tag:web", "deny": ["typo@example.com:80"]"#, &inventory),
        "tag:web -> typo@example.com:80: there is no user `typo@example.com`"
    );
    inventory.more_users = true;
    assert_eq!(failures(WEB, test, &inventory), "", "not all users are listed");
}

#[test]
fn made_up_nodes_take_free_addresses() {
    let mut inventory = network();
    inventory.nodes.push(node("last", "100.127.255.254", Some("last@example.com"), &[]));
    inventory.nodes.push(node("last6", "fd7a:115c:a1e0:ffff::ffff:ffff", Some("last@example.com"), &[]));
    let rule = r#"{"src": ["last@example.com"], "dst": ["tag:db"], "ip": ["22"]}"#;
    assert_eq!(failures(rule, r#""src": "group:dev", "deny": ["tag:db:22"]"#, &inventory), "");
    assert_eq!(failures(rule, r#""src": "bob@example.com", "deny": ["tag:db:22"]"#, &inventory), "");
}
