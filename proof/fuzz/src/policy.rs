//! Parses a text as a policy, and compiles it for a small network.

use std::net::IpAddr;

use taut_policy::{Inventory, NodeFacts, Packet, Policy, Role, UserFacts, compile, diff, oracle, run_tests};

/// Checks that compiler and oracle agree on a valid policy, and that the error about any other text names a place in that text.
pub(crate) fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let policy = match Policy::parse(&text) {
        Ok(policy) => policy,
        Err(error) => {
            let line = text.split('\n').nth(error.line as usize - 1).expect("the line is in the text");
            assert!((1..=line.chars().count() + 1).contains(&(error.column as usize)), "{error}");
            assert!(!error.message.is_empty());
            return;
        }
    };
    let inventory = inventory();
    let compiled = compile(&policy, &inventory);
    for node in 0..inventory.nodes.len() {
        let (filter, origins) = compiled.filter_with_rules(node);
        assert_eq!(filter.check(), Ok(()));
        assert_eq!(filter.rules.len(), origins.len());
        for packet in packets(&inventory) {
            let wanted = oracle::allows(&policy, &inventory, node, &packet);
            assert_eq!(filter.allows(&packet), wanted, "{packet:?} at {node}");
            assert_eq!(compiled.deciding_rule(node, &packet).is_some(), wanted, "{packet:?} at {node}");
        }
    }
    run_tests(&policy, &inventory);
    run_tests(&policy, &Inventory::default());
    assert!(diff(&policy, &policy, &inventory, 9).changes.is_empty());
    let nothing = Policy::parse("{\"grants\":[]}").expect("an empty policy is one");
    assert!(diff(&nothing, &policy, &inventory, 9).changes.iter().all(|change| change.lost.is_empty()));
}

/// Three nodes: a person's, a tagged router, an exit node without an owner.
fn inventory() -> Inventory {
    let node = |number: u8, user: Option<&str>, tags: &[&str], routes: &[&str]| NodeFacts {
        name: format!("n{number}"),
        addresses: vec![
            IpAddr::from([100, 64, 0, number]),
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)]),
        ],
        user: user.map(String::from),
        tags: tags.iter().map(|tag| String::from(*tag)).collect(),
        routes: routes.iter().filter_map(|route| route.parse().ok()).collect(),
    };
    let user = UserFacts { name: String::from("ann@example.com"), role: Role::Owner, groups: vec![String::from("it")] };
    let nodes = vec![
        node(1, Some("ann@example.com"), &[], &[]),
        node(2, None, &["tag:web"], &["10.33.0.0/16"]),
        node(3, Some("bob@example.com"), &[], &["0.0.0.0/0", "::/0"]),
    ];
    Inventory { nodes, users: vec![user], ..Inventory::default() }
}

fn packets(inventory: &Inventory) -> impl Iterator<Item = Packet> {
    let more = ["10.33.0.7", "8.8.8.8", "2001:db8::1"].into_iter().filter_map(|address| address.parse().ok());
    let all: Vec<IpAddr> = inventory.nodes.iter().flat_map(|node| node.addresses.clone()).chain(more).collect();
    let pairs = all.clone().into_iter().flat_map(move |src| all.clone().into_iter().map(move |dst| (src, dst)));
    pairs.filter(|(src, dst)| src.is_ipv4() == dst.is_ipv4()).flat_map(|(src, dst)| {
        [(6, 22), (6, 443), (17, 0), (1, 0), (58, 0), (47, 0), (132, 9)].map(|(proto, port)| Packet {
            src,
            dst,
            proto,
            port,
        })
    })
}

/// Policies with every part of the language, and some that are refused.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"acls":[]}"#,
        r#"// words
{"groups":{"group:a":["ann@example.com","bob@"]},"tagOwners":{"tag:web":["group:a","autogroup:admin"],},
"hosts":{"lan":"10.33.0.0/16","box":"100.64.0.2"},"acls":[
{"action":"accept","src":["group:a","tag:web"],"dst":["lan:*","tag:web:80,443","[fd00::2]:22"],"proto":"tcp"},
{"action":"accept","src":["*"],"dst":["autogroup:self:22-30"]}],
"tests":[{"src":"ann@example.com","proto":"tcp","accept":["tag:web:80"],"deny":["box:9"]}]}"#,
        r#"{"ipsets":{"ipset:s":["add autogroup:internet","remove 8.0.0.0/7","fd00::1-fd00::3"],"ipset:t":["ipset:s"]},
"grants":[{"src":["autogroup:member","user:*@example.com","group:it@example.com"],"dst":["ipset:t","autogroup:internet"],"ip":["tcp:22","443","icmp:*"]},
{"src":["autogroup:danger-all"],"dst":["*"],"ip":["sctp:1-9"]}]}"#,
        r#"{"autoApprovers":{"routes":{"10.0.0.0/8":["tag:r"]},"exitNode":["autogroup:tagged"]},"tagOwners":{"tag:r":[]},"grants":[]}"#,
        r#"{"grants":[{"src":["*"],"dst":["*"],"ip":["*"],"via":["tag:x"]}]}"#,
        "{\"acls\": [/* no end",
        r#"{"grants":[{"src":["\u00e4@\ud83d\ude00"],"dst":["10.0.0.1"],"ip":["17:0-65535"]}],"tests":[]}"#,
    ];
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}
