//! Tables of nftables against the kernel, in a fresh namespace. The system's `nft` is the other program.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output};

use taut_base::Prefix;
use taut_namespace::in_namespace;
use taut_netlink::{NftChain, NftHook, NftRule, NftTable};

/// Index of the loopback interface.
const LOOPBACK: u32 = 1;

fn nft(words: &str) -> Output {
    Command::new("nft").args(words.split_whitespace()).output().unwrap()
}

fn listed(words: &str) -> String {
    String::from_utf8(nft(words).stdout).unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn chains() -> Vec<NftChain> {
    let rules = vec![
        NftRule::new().from_interface(LOOPBACK).of_known_connection().accept(),
        NftRule::new().from_interface(LOOPBACK).destination(prefix("192.168.10.0/24")).accept(),
        NftRule::new().to_interface(LOOPBACK).source(prefix("10.0.0.0/9")).drop(),
        NftRule::new().to_interface(LOOPBACK).source(prefix("fd00::/48")).drop(),
    ];
    let (real, published) = (prefix("10.1.0.0/24"), prefix("10.201.0.0/24"));
    let masquerade = NftRule::new().from_interface(LOOPBACK).not_to_interface(LOOPBACK).masquerade();
    let shifted = NftRule::new().source(prefix("100.64.0.0/10")).masquerade_to((61_000, 65_535));
    vec![
        NftChain { name: "forward", hook: NftHook::Forward, rules },
        NftChain {
            name: "raw",
            hook: NftHook::Raw,
            rules: vec![NftRule::new().source(prefix("100.64.0.0/10")).not_from_type(772).way_back_is_another().drop()],
        },
        NftChain {
            name: "before",
            hook: NftHook::Prerouting,
            rules: vec![
                NftRule::new().destination(published).map_destination(real),
                NftRule::new().destination(prefix("2000::/3")).reject(),
            ],
        },
        NftChain {
            name: "after",
            hook: NftHook::Postrouting,
            rules: vec![NftRule::new().source(real).map_source(published), shifted, masquerade],
        },
    ]
}

#[test]
fn a_table_has_the_rules_that_were_asked_for() {
    in_namespace(|| {
        let mut table = NftTable::open("t0_routes").unwrap();
        assert!(table.is_complete().unwrap(), "there should be none");
        table.replace(&chains()).unwrap();
        let text = listed("list table inet t0_routes");
        let lines = [
            "iif \"lo\" ct state established,related accept",
            "iif \"lo\" ip daddr 192.168.10.0/24 accept",
            "oif \"lo\" ip saddr 10.0.0.0/9 drop",
            "oif \"lo\" ip6 saddr fd00::/48 drop",
            "ip saddr 100.64.0.0/10 meta iiftype != loopback fib saddr . iif oif 0 drop",
            "ip daddr 10.201.0.0/24 dnat ip prefix to 10.1.0.0/24",
            "ip6 daddr 2000::/3 reject with icmpx no-route",
            "ip saddr 10.1.0.0/24 snat ip prefix to 10.201.0.0/24",
            "ip saddr 100.64.0.0/10 masquerade to :61000-65535 fully-random",
            "iif \"lo\" oif != \"lo\" masquerade",
        ];
        let places: Vec<_> =
            lines.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"))).collect();
        assert!(places.is_sorted(), "rules are in order: {text}");
        assert!(text.contains("type filter hook forward priority filter; policy accept;"), "{text}");
        assert!(table.is_complete().unwrap());
        // A second time, and with fewer rules.
        table.replace(&chains()).unwrap();
        assert_eq!(listed("list table inet t0_routes").matches("masquerade").count(), 2);
        table.replace(&chains()[..1]).unwrap();
        assert!(table.is_complete().unwrap() && !listed("list ruleset").contains("masquerade"));
        table.remove().unwrap();
        table.remove().unwrap();
        assert_eq!(listed("list ruleset"), "");
    });
}

#[test]
fn fault_j8_other_programs_cannot_remove_a_protected_table() {
    in_namespace(|| {
        let mut table = NftTable::open("t0_routes").unwrap();
        table.replace(&chains()).unwrap();
        assert!(table.is_protected(), "this kernel is too old for the test");
        nft("flush ruleset");
        assert!(!nft("delete table inet t0_routes").status.success());
        assert!(table.is_complete().unwrap());
        assert!(!nft("flush chain inet t0_routes forward").status.success());
    });
}

#[test]
fn fault_j9_a_protected_table_ends_with_its_program() {
    in_namespace(|| {
        let mut table = NftTable::open("t0_routes").unwrap();
        table.replace(&chains()).unwrap();
        drop(table);
        assert_eq!(listed("list ruleset"), "");
    });
}

#[test]
fn fault_j8_a_table_without_protection_is_missed_and_made_again_once() {
    in_namespace(|| {
        let mut table = NftTable::open_unprotected("t0_routes").unwrap();
        table.replace(&chains()).unwrap();
        assert!(table.is_complete().unwrap());
        for damage in ["flush ruleset", "flush chain inet t0_routes after", "delete table inet t0_routes"] {
            assert!(nft(damage).status.success(), "{damage}");
            assert!(!table.is_complete().unwrap(), "{damage}");
            table.replace(&chains()).unwrap();
            assert!(table.is_complete().unwrap(), "{damage}");
            assert_eq!(listed("list ruleset").matches("masquerade").count(), 2, "{damage}");
        }
    });
}

#[test]
fn a_refused_table_leaves_the_former_one() {
    in_namespace(|| {
        let mut table = NftTable::open("t0_routes").unwrap();
        table.replace(&chains()[..1]).unwrap();
        // Masquerading is for packets that leave.
        let rules = vec![NftRule::new().masquerade()];
        let error = table.replace(&[NftChain { name: "forward", hook: NftHook::Forward, rules }]).unwrap_err();
        assert!(error.to_string().contains("nftables"), "{error}");
        assert!(table.is_complete().unwrap() && listed("list ruleset").contains("192.168.10.0/24"));
    });
}
