//! The compiler against the slow evaluator (fault G13): the same verdict for every random policy and packet. By night, and by
//! `cargo run --release -p taut-policy --example differential -- 10000000`, more of them.
#![expect(clippy::unwrap_used, reason = "tests may stop at the first surprise")]

#[path = "common/random.rs"]
mod random;

/// Packets of each policy.
const PACKETS: usize = 20;

#[test]
fn fault_g13_filters_and_the_oracle_agree() {
    let (mut allowed, mut all) = (0, 0);
    for seed in taut_testkit::seeds(600, 20_000) {
        allowed += random::compare(seed, PACKETS).unwrap_or_else(|error| panic!("{error}"));
        all += PACKETS;
    }
    // Both verdicts occur often enough to be compared.
    assert!(allowed > all / 20 && allowed < all / 2, "{allowed} of {all} packets are allowed");
}

#[test]
fn a_service_without_ports_opens_nothing_not_even_icmp() {
    let text = r#"{"acls": [{"action": "accept", "src": ["100.64.0.1"], "dst": ["100.64.0.2:22"]}]}"#;
    let mut policy = taut_policy::Policy::parse(text).unwrap();
    let node = |name: &str, address: &str| taut_policy::NodeFacts {
        name: String::from(name),
        addresses: vec![address.parse().unwrap()],
        ..taut_policy::NodeFacts::default()
    };
    let nodes = vec![node("one", "100.64.0.1"), node("two", "100.64.0.2")];
    let inventory = taut_policy::Inventory { nodes, ..taut_policy::Inventory::default() };
    let packet = taut_policy::Packet {
        src: "100.64.0.1".parse().unwrap(),
        dst: "100.64.0.2".parse().unwrap(),
        proto: 1,
        port: 0,
    };
    let verdicts = |policy: &taut_policy::Policy| {
        let compiled = taut_policy::compile(policy, &inventory);
        [
            taut_policy::oracle::allows(policy, &inventory, 1, &packet),
            compiled.filter(1).allows(&packet),
            compiled.deciding_rule(1, &packet).is_some(),
        ]
    };
    assert_eq!(verdicts(&policy), [true; 3]);
    // No text has such a service.
    policy.rules[0].access[0].services[0].ports.clear();
    assert_eq!(verdicts(&policy), [false; 3]);
}
