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
