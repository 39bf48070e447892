//! Tables of nftables against the kernel, in a fresh namespace. The system's `nft` is the other program.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output};

use taut_base::Prefix;
use taut_namespace::in_namespace;
use taut_netlink::{NftChain, NftHook, NftRule, NftTable, chains_that_drop_forwarded};

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
                NftRule::new().destination(prefix("2000::/3")).answer_no_route(),
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

#[test]
fn a_table_with_thousands_of_rules_is_taken_as_a_whole() {
    in_namespace(|| {
        let rules = (0..4_000_u32).map(|number| {
            let [_, _, third, fourth] = number.to_be_bytes();
            NftRule::new().from_interface(LOOPBACK).destination(prefix(&format!("10.0.{third}.{fourth}/32"))).drop()
        });
        let chain = NftChain { name: "forward", hook: NftHook::Forward, rules: rules.collect() };
        let mut table = NftTable::open("t0_routes").unwrap();
        table.replace(&[chain]).unwrap();
        assert!(table.is_complete().unwrap());
        assert_eq!(listed("list table inet t0_routes").matches(" drop").count(), 4_000);
    });
}

fn guard() -> Vec<NftChain> {
    let output = vec![
        NftRule::new().to_interface(LOOPBACK).accept(),
        NftRule::new().to_named("taut*").accept(),
        NftRule::new().to_named("wg0").accept(),
        NftRule::new().marked(0x7400_0000, 0xff00_0000).accept(),
        NftRule::new().udp(true, 68, 67).accept(),
        NftRule::new().icmpv6(135).accept(),
        NftRule::new().family_in("paused").accept(),
        NftRule::new().count().reject_tcp(),
        NftRule::new().count().drop(),
    ];
    let incoming = vec![
        NftRule::new().from_named("taut*").accept(),
        NftRule::new().to_host().of_new_connection().set_connection_mark(0x7500_0000, 0xff00_0000),
        NftRule::new().of_marked_connection(0x7500_0000, 0xff00_0000).set_mark(0x7500_0000, 0xff00_0000),
    ];
    let outgoing = vec![
        NftRule::new().of_new_connection().tcp_within(22).set_connection_mark(0x7500_0000, 0xff00_0000),
        NftRule::new().of_marked_connection(0x7500_0000, 0xff00_0000).set_mark(0x7500_0000, 0xff00_0000),
    ];
    vec![
        NftChain { name: "output", hook: NftHook::Output, rules: output },
        NftChain { name: "incoming", hook: NftHook::MarkIncoming, rules: incoming },
        NftChain { name: "outgoing", hook: NftHook::MarkOutgoing, rules: outgoing },
    ]
}

#[test]
fn a_table_for_the_hosts_own_packets_has_the_rules_that_were_asked_for() {
    in_namespace(|| {
        let mut table = NftTable::open_unprotected("t0_guard").unwrap();
        table.replace_with(Some("paused"), &guard()).unwrap();
        let text = listed("list table inet t0_guard");
        for line in [
            "type nf_proto",
            "flags timeout",
            "type filter hook output priority filter; policy accept;",
            "oif \"lo\" accept",
            "oifname \"taut*\" accept",
            "oifname \"wg0\" accept",
            "0x74000000",
            "meta nfproto ipv4 udp sport 68 udp dport 67 accept",
            "icmpv6 type nd-neighbor-solicit accept",
            "meta nfproto @paused accept",
            "counter packets 0 bytes 0 meta l4proto tcp reject with tcp reset",
            "counter packets 0 bytes 0 drop",
            "type filter hook prerouting priority mangle; policy accept;",
            "fib daddr type local ct state new ct mark set ct mark & 0x75ffffff | 0x75000000",
            "type route hook output priority mangle; policy accept;",
            "ct state new tcp sport 22 tcp flags ! syn",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(table.is_complete().unwrap());
        // It outlives its program.
        drop(table);
        assert!(listed("list ruleset").contains("t0_guard"));
        let mut table = NftTable::open_unprotected("t0_guard").unwrap();
        table.expect(&guard());
        assert!(table.is_complete().unwrap());
        table.remove().unwrap();
        assert_eq!(listed("list ruleset"), "");
    });
}

#[test]
fn packets_are_counted_and_a_set_empties_itself() {
    in_namespace(|| {
        for words in [
            "link set lo up",
            "link add eth7 type veth peer name far7",
            "link set eth7 up",
            "link set far7 up",
            "address add 192.0.2.1/24 dev eth7",
        ] {
            assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
        }
        let mut table = NftTable::open_unprotected("t0_guard").unwrap();
        assert_eq!((table.counted().unwrap(), table.families_left("paused").unwrap()), (None, None));
        table.replace_with(Some("paused"), &guard()).unwrap();
        assert_eq!(table.families_left("paused").unwrap(), None);
        let socket = std::net::UdpSocket::bind("192.0.2.1:0").unwrap();
        let send = || socket.send_to(b"a", "192.0.2.7:9").map_err(|error| error.raw_os_error());
        assert_eq!(send(), Err(Some(1)), "EPERM");
        assert!(table.counted().unwrap() >= Some(1));
        let refused =
            std::net::TcpStream::connect_timeout(&"192.0.2.7:9".parse().unwrap(), std::time::Duration::from_secs(5))
                .unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "a program fails at once");
        assert!(table.counted().unwrap() >= Some(2));
        table.add_families("paused", std::time::Duration::from_secs(60)).unwrap();
        let left = table.families_left("paused").unwrap().unwrap();
        assert!(left > std::time::Duration::from_secs(50) && left <= std::time::Duration::from_secs(60), "{left:?}");
        assert_eq!(send(), Ok(1));
        table.add_families("paused", std::time::Duration::from_secs(600)).unwrap();
        assert!(table.families_left("paused").unwrap().unwrap() > std::time::Duration::from_secs(500));
        table.remove_families("paused").unwrap();
        table.remove_families("paused").unwrap();
        assert_eq!(send(), Err(Some(1)));
        // Less than a tick: Linux 5.10 would keep the element, if it were asked for as it is.
        table.add_families("paused", std::time::Duration::from_millis(1)).unwrap();
        while send().is_ok() {}
        assert!(table.is_complete().unwrap());
        // Into an empty set, and again: shorter and longer.
        for seconds in [60, 10, 600] {
            table.renew_families("paused", std::time::Duration::from_secs(seconds)).unwrap();
            let left = table.families_left("paused").unwrap().unwrap().as_millis();
            assert!(left > u128::from(seconds) * 800 && left <= u128::from(seconds) * 1000, "{seconds} {left}");
            assert_eq!(send(), Ok(1));
        }
    });
}

#[test]
fn fault_j10_a_firewall_that_drops_forwarded_packets_is_found() {
    in_namespace(|| {
        let found = || chains_that_drop_forwarded("taut0").unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found(), [""; 0]);
        for command in [
            "add table ip filter",
            "add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }",
            "add table inet other",
            "add chain inet other forward { type filter hook forward priority 0; policy accept; }",
            "add chain inet other input { type filter hook input priority 0; policy drop; }",
            "add rule ip filter FORWARD ct state established accept",
        ] {
            assert!(nft(command).status.success(), "{command}");
        }
        assert_eq!(found(), ["ip filter FORWARD"]);
        for name in ["taut*", "taut0"] {
            assert!(nft(&format!("add rule ip filter FORWARD iifname {name} accept")).status.success());
            assert_eq!(found(), [""; 0], "{name}");
            assert!(nft("flush chain ip filter FORWARD").status.success());
            assert_eq!(found(), ["ip filter FORWARD"]);
        }
    });
}
