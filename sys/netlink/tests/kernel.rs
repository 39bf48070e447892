//! rtnetlink against the kernel, on the loopback interface of a fresh namespace.
#![expect(unsafe_code, reason = "the tests wait through libc")]
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use taut_namespace::{enter_new, in_namespace};
use taut_netlink::{
    Address, Changes, Hop, MAIN_TABLE, Monitor, Netlink, NetlinkError, OtherRule, ROUTE_PROTOCOL, Route, RoutingRule,
    Scope, Selector, Watch,
};

/// Index of the loopback interface, 1: it is the first interface of every namespace.
const LOOPBACK: u32 = 1;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns a netlink socket in a namespace whose loopback interface is up.
fn open() -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    netlink.set_link_up(LOOPBACK, true).unwrap();
    netlink
}

fn address(netlink: &mut Netlink, wanted: IpAddr) -> Option<Address> {
    netlink.addresses().unwrap().into_iter().find(|address| address.ip == wanted)
}

fn route(destination: &str, prefix_len: u8) -> Route {
    Route::new(ip(destination), prefix_len, LOOPBACK)
}

#[test]
fn links_are_read_and_changed() {
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        let link = netlink.link("lo").unwrap().unwrap();
        assert_eq!((link.index, link.name.as_str(), link.up, link.loopback), (LOOPBACK, "lo", false, true));
        assert!(netlink.links().unwrap().contains(&link));

        netlink.set_link_up(LOOPBACK, true).unwrap();
        netlink.set_mtu(LOOPBACK, 9_000).unwrap();
        netlink.set_tx_queue_len(LOOPBACK, 77).unwrap();
        let link = netlink.link("lo").unwrap().unwrap();
        assert_eq!((link.up, link.running, link.mtu, link.tx_queue_len), (true, true, 9_000, 77));

        netlink.set_link_up(LOOPBACK, false).unwrap();
        assert!(!netlink.link("lo").unwrap().unwrap().up);
    });
}

/// Runs `ip` with these arguments.
fn run(words: &str) {
    let done = std::process::Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_link_has_its_kind_and_is_found_by_index() {
    in_namespace(|| {
        let mut netlink = open();
        run("link add one type veth peer name far");
        run("tuntap add tap0 mode tap");
        let kind = |link: Option<taut_netlink::InterfaceLink>| link.unwrap().kind;
        assert_eq!(kind(netlink.link("lo").unwrap()), None);
        assert_eq!(kind(netlink.link("one").unwrap()).as_deref(), Some("veth"));
        let tap = netlink.link("tap0").unwrap().unwrap();
        assert_eq!(tap.kind.as_deref(), Some("tun"));
        run("link set tap0 name other0");
        assert_eq!(netlink.link_at(tap.index).unwrap().unwrap().name, "other0");
        assert!(netlink.links().unwrap().iter().any(|link| link.index == tap.index && link.kind == tap.kind));
        assert_eq!(netlink.link_at(4_711).unwrap(), None);
    });
}

#[test]
fn routes_are_filtered_by_interface() {
    in_namespace(|| {
        let mut netlink = open();
        run("link add one type veth peer name far");
        run("link set one up");
        let one = netlink.link("one").unwrap().unwrap().index;
        let by_one = |text, length| Route::new(ip(text), length, one);
        let aside = Route { table: 51_820, protocol: 4, ..by_one("10.9.0.0", 16) };
        for added in [&by_one("10.7.0.0", 16), &aside, &by_one("fd00:7b::", 32), &route("10.8.0.0", 16)] {
            netlink.add_route(added).unwrap();
        }
        let found = netlink.routes_by(one).unwrap();
        assert!(found.contains(&by_one("10.7.0.0", 16)) && found.contains(&aside), "{found:?}");
        assert!(found.iter().any(|route| route.destination == ip("fd00:7b::") && route.is_ours()), "{found:?}");
        assert!(found.iter().all(|route| route.interface == Some(one)), "{found:?}");
        assert_eq!(netlink.own_routes().unwrap().len(), 3);
        assert_eq!(netlink.routes_by(4_711).unwrap(), []);
        // The filter applies only to that one request.
        assert!(netlink.routes().unwrap().len() > 2 && netlink.way(ip("127.0.0.1"), ip("127.0.0.1"), 0).is_ok());
    });
}

#[test]
fn fault_j13_a_route_of_another_taut_tunnel_is_neither_replaced_nor_removed() {
    in_namespace(|| {
        let mut netlink = open();
        run("link add one type veth peer name far");
        run("link set one up");
        let one = netlink.link("one").unwrap().unwrap().index;
        for (text, length) in [("100.64.0.2", 32), ("fd00::2", 128)] {
            let (theirs, ours) = (Route::new(ip(text), length, one), route(text, length));
            netlink.add_route(&theirs).unwrap();
            let error = netlink.add_route(&ours).unwrap_err();
            assert!(
                matches!(error, NetlinkError::RouteTaken { protocol: ROUTE_PROTOCOL, interface: Some(by), .. } if by == one),
                "{error}"
            );
            assert!(!netlink.claim_route(&ours).unwrap() && !netlink.claim_route(&theirs).unwrap());
            assert_eq!(netlink.interface_to(ip(text), 0).unwrap(), Some(one));
            // The other tunnel's route was neither replaced nor removed.
            netlink.remove_route(&ours).unwrap();
            assert!(
                netlink.routes_by(one).unwrap().iter().any(|route| route.destination == ip(text) && route.is_ours())
            );
            netlink.add_route(&theirs).unwrap();
            netlink.remove_route(&theirs).unwrap();
            assert_eq!(netlink.interface_to(ip(text), 0).unwrap(), None);
            assert!(netlink.claim_route(&ours).unwrap());
            assert_eq!(netlink.interface_to(ip(text), 0).unwrap(), Some(LOOPBACK));
        }
    });
}

#[test]
fn fault_j11_the_monitor_reports_changes_of_watched_state() {
    in_namespace(|| {
        let mut netlink = open();
        run("link add one type veth peer name far");
        let one = netlink.link("one").unwrap().unwrap().index;
        let mut monitor = Monitor::open().unwrap();
        monitor.watch(Some(Watch { interface: one, destinations: vec!["100.64.0.0/10".parse().unwrap()] }));
        let mut watched = |netlink: &mut Netlink, change: &dyn Fn(&mut Netlink)| {
            change(netlink);
            let changes = monitor.drain().unwrap();
            assert!(changes.any() && (changes.watched || changes.elsewhere));
            changes.watched
        };
        assert!(!watched(&mut netlink, &|netlink| netlink.set_mtu(LOOPBACK, 9_000).unwrap()));
        assert!(watched(&mut netlink, &|netlink| netlink.set_link_up(one, true).unwrap()));
        assert!(watched(&mut netlink, &|netlink| netlink.add_address(one, ip("192.0.2.7"), 32).unwrap()));
        assert!(!watched(&mut netlink, &|netlink| netlink.add_route(&route("10.7.0.0", 16)).unwrap()));
        // A route to a watched destination through another interface counts as a change of the watched state.
        let elsewhere = route("100.64.0.2", 32);
        assert!(watched(&mut netlink, &|netlink| netlink.add_route(&elsewhere).unwrap()));
        assert!(watched(&mut netlink, &|netlink| netlink.remove_route(&elsewhere).unwrap()));
        assert!(watched(&mut netlink, &|netlink| netlink.remove_address(one, ip("192.0.2.7"), 32).unwrap()));
    });
}

#[test]
fn packets_dropped_before_a_link_are_counted() {
    in_namespace(|| {
        let mut netlink = open();
        assert_eq!(netlink.tx_dropped(LOOPBACK).unwrap(), Some(0));
        let error = netlink.tx_dropped(4_711).unwrap_err();
        assert_eq!(error.code(), Some(libc::ENODEV));
    });
}

#[test]
fn a_missing_link_is_none_and_changing_it_is_an_error_with_advice() {
    in_namespace(|| {
        let mut netlink = open();
        assert_eq!(netlink.link("taut0").unwrap(), None);
        assert_eq!(netlink.link("").unwrap_or(None), None);
        let error = netlink.set_mtu(4_711, 1_420).unwrap_err();
        assert_eq!(error.code(), Some(libc::ENODEV));
        let text = error.to_string();
        assert!(text.contains("1420 of interface 4711") && text.contains("ip link"), "{text}");
    });
}

#[test]
fn the_kernels_error_text_is_shown() {
    in_namespace(|| {
        let mut netlink = open();
        let beyond = Route { gateway: Some(ip("203.0.113.1")), ..route("198.51.100.0", 24) };
        let text = netlink.add_route(&beyond).unwrap_err().to_string();
        assert!(text.contains("198.51.100.0/24 via 203.0.113.1"), "{text}");
        assert!(text.contains("the kernel says: ") && text.contains("gateway"), "{text}");
    });
}

#[test]
fn adding_and_removing_an_address_twice_is_no_error() {
    in_namespace(|| {
        let mut netlink = open();
        for (own, prefix_len) in [(ip("100.64.0.5"), 10), (ip("fd00:7a::5"), 48)] {
            assert_eq!(address(&mut netlink, own), None);
            for _ in 0..2 {
                netlink.add_address(LOOPBACK, own, prefix_len).unwrap();
                let found = address(&mut netlink, own).unwrap();
                assert_eq!((found.index, found.prefix_len, found.scope), (LOOPBACK, prefix_len, Scope::Global));
                assert!(!found.tentative && !found.deprecated && !found.duplicate && !found.temporary, "{found:?}");
            }
            for _ in 0..2 {
                netlink.remove_address(LOOPBACK, own, prefix_len).unwrap();
                assert_eq!(address(&mut netlink, own), None);
            }
        }
        assert_eq!(address(&mut netlink, ip("127.0.0.1")).unwrap().scope, Scope::Host);
    });
}

#[test]
fn routes_are_added_changed_and_removed() {
    in_namespace(|| {
        let mut netlink = open();
        for plain in [route("10.7.0.0", 16), route("fd00:7b::", 32)] {
            netlink.add_route(&plain).unwrap();
            netlink.add_route(&plain).unwrap();
            let changed = Route { mtu: Some(1_300), ..plain.clone() };
            netlink.add_route(&changed).unwrap();

            let own = netlink.own_routes().unwrap();
            assert_eq!(own.len(), 1, "{own:?}");
            let found = &own[0];
            assert_eq!((found.destination, found.prefix_len), (plain.destination, plain.prefix_len));
            assert_eq!((found.interface, found.mtu), (Some(LOOPBACK), Some(1_300)));
            assert_eq!((found.protocol, found.table), (ROUTE_PROTOCOL, MAIN_TABLE));
            assert!(netlink.routes().unwrap().contains(found));
            for (mtu, ecn) in [(Some(1_400), false), (None, false), (None, true), (Some(1_280), true)] {
                netlink.replace_route(&Route { mtu, ecn, ..plain.clone() }).unwrap();
                let own = netlink.own_routes().unwrap();
                assert_eq!(own.iter().map(|route| (route.mtu, route.ecn)).collect::<Vec<_>>(), [(mtu, ecn)]);
            }

            netlink.remove_route(&changed).unwrap();
            netlink.remove_route(&plain).unwrap();
            assert_eq!(netlink.own_routes().unwrap(), []);
            assert!(netlink.replace_route(&plain).is_err(), "there is none to change");
        }
    });
}

#[test]
fn a_route_that_was_read_can_be_removed() {
    in_namespace(|| {
        let mut netlink = open();
        netlink.add_address(LOOPBACK, ip("192.0.2.1"), 24).unwrap();
        let far = Route { gateway: Some(ip("192.0.2.9")), metric: 50, ..route("0.0.0.0", 0) };
        let aside = Route { table: 51_820, ..route("::", 0) };
        let half = Route { table: 51_820, ..route("128.0.0.0", 1) };
        for added in [&far, &aside, &half] {
            netlink.add_route(added).unwrap();
        }
        let own = netlink.own_routes().unwrap();
        assert_eq!(own.len(), 3, "{own:?}");
        assert!(own.contains(&far) && own.contains(&half), "{own:?}");
        assert!(own.iter().any(|route| route.table == 51_820 && route.destination == ip("::")));
        assert!(netlink.routes().unwrap().iter().all(|route| route.table == MAIN_TABLE));
        for leftover in &own {
            netlink.remove_route(leftover).unwrap();
        }
        assert_eq!(netlink.own_routes().unwrap(), []);
    });
}

#[test]
fn a_route_of_another_program_is_neither_replaced_nor_removed() {
    in_namespace(|| {
        let mut netlink = open();
        for ours in [route("10.8.0.0", 16), route("fd00:7c::", 32)] {
            let theirs = Route { protocol: 4, mtu: Some(1_400), ..ours.clone() };
            netlink.add_route(&theirs).unwrap();
            let error = netlink.add_route(&ours).unwrap_err();
            assert!(matches!(error, NetlinkError::RouteTaken { protocol: 4, .. }), "{error}");
            netlink.remove_route(&ours).unwrap();
            let same = |route: &Route| route.destination == ours.destination && route.protocol == 4;
            assert!(
                netlink.routes().unwrap().iter().any(same),
                "the route of the other program was replaced or removed"
            );

            let beside = Route { metric: 2_000, ..ours };
            netlink.add_route(&beside).unwrap();
            assert_eq!(netlink.own_routes().unwrap().len(), 1);
            netlink.remove_route(&beside).unwrap();
        }
    });
}

#[test]
fn a_dump_longer_than_one_datagram_is_whole() {
    in_namespace(|| {
        let mut netlink = open();
        for number in 0..1_000_u32 {
            let destination = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            netlink.add_route(&Route::new(destination, 32, LOOPBACK)).unwrap();
        }
        let mut own = netlink.own_routes().unwrap();
        own.sort_by_key(|route| route.destination);
        own.dedup();
        assert_eq!(own.len(), 1_000);
    });
}

/// Waits until the monitor is readable. The limit of 20 s suffices for the slowest machine; only a missing notification reaches it.
fn wait_readable(monitor: &Monitor) {
    let mut slot = libc::pollfd { fd: monitor.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives across the call.
    assert_eq!(unsafe { libc::poll(&raw mut slot, 1, 20_000) }, 1, "the monitor got no notification");
}

/// Returns the monitor's changes without those of links, because a kernel thread updates link states with a delay.
fn without_links(monitor: &mut Monitor) -> Changes {
    let changes = monitor.drain().unwrap();
    let elsewhere = changes.elsewhere && (changes.addresses || changes.routes);
    Changes { links: false, elsewhere, ..changes }
}

#[test]
fn the_monitor_reports_each_kind_of_change() {
    in_namespace(|| {
        let mut netlink = open();
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(without_links(&mut monitor), Changes::default());

        netlink.set_mtu(LOOPBACK, 9_000).unwrap();
        let changes = monitor.drain().unwrap();
        assert_eq!(changes, Changes { links: true, elsewhere: true, ..Changes::default() });

        for destination in ["10.9.0.0", "fd00:7d::"] {
            netlink.add_route(&route(destination, 24)).unwrap();
            assert_eq!(without_links(&mut monitor), Changes { routes: true, elsewhere: true, ..Changes::default() });
        }
        for own in ["192.0.2.7", "fd00:7d::7"] {
            netlink.add_address(LOOPBACK, ip(own), 24).unwrap();
            // IPv6 announces an address only after a kernel thread has checked it.
            while !monitor.drain().unwrap().addresses {
                wait_readable(&monitor);
            }
        }
    });
}

#[test]
fn lost_notifications_are_an_overrun_and_the_monitor_continues() {
    in_namespace(|| {
        let mut netlink = open();
        let mut monitor = Monitor::open().unwrap();
        // Each change takes over a thousand bytes of kernel memory, so these changes overflow any default receive buffer.
        for mtu in 2_000..4_000 {
            netlink.set_mtu(LOOPBACK, mtu).unwrap();
        }
        let mut all = Changes::default();
        loop {
            let changes = monitor.drain().unwrap();
            if !changes.any() {
                break;
            }
            all.overrun |= changes.overrun;
            all.routes |= changes.routes;
        }
        assert!(all.overrun && all.routes, "after an overrun all kinds of state must count as changed");
        netlink.add_route(&route("10.9.0.0", 24)).unwrap();
        assert_eq!(without_links(&mut monitor), Changes { routes: true, elsewhere: true, ..Changes::default() });
    });
}

#[test]
fn a_netlink_socket_stays_in_its_namespace() {
    in_namespace(|| {
        let mut netlink = open();
        netlink.add_route(&route("10.7.0.0", 16)).unwrap();
        in_namespace(|| assert_eq!(Netlink::open().unwrap().own_routes().unwrap(), []));
        assert_eq!(netlink.own_routes().unwrap().len(), 1);
    });
}

#[test]
fn the_interface_of_a_packet_is_found_by_address_and_mark() {
    in_namespace(|| {
        let mut netlink = open();
        for (number, name) in [(1, "one"), (2, "two")] {
            run(&format!("link add {name} type veth peer name far-{name}"));
            run(&format!("address add 10.0.{number}.1/24 dev {name}"));
            run(&format!("address add fd00:{number}::1/64 dev {name} nodad"));
            run(&format!("link set {name} up"));
            run(&format!("link set far-{name} up"));
        }
        let index = |netlink: &mut Netlink, name| netlink.link(name).unwrap().unwrap().index;
        let (one, two) = (index(&mut netlink, "one"), index(&mut netlink, "two"));
        for (near, other, far, family) in
            [("10.0.1.1", "10.0.2.1", "192.0.2.9", "-4"), ("fd00:1::1", "fd00:2::1", "2001:db8::9", "-6")]
        {
            let mut way = |from, mark| netlink.way(ip(from), ip(far), mark).unwrap();
            assert_eq!(way(near, 0), None, "no route");
            run(&format!("{family} route add default dev one"));
            assert_eq!((way(near, 0), way(other, 0)), (Some(one), Some(one)));
            run(&format!("{family} route add default dev two table 7"));
            run(&format!("{family} rule add from {other} table 7"));
            assert_eq!((way(near, 0), way(other, 0)), (Some(one), Some(two)), "by address");
            run(&format!("{family} rule add fwmark 5 table 7"));
            assert_eq!((way(near, 0), way(near, 5)), (Some(one), Some(two)), "by mark");
            run(&format!("{family} rule add from {near} fwmark 6 prohibit"));
            assert_eq!((way(near, 6), way(near, 0)), (None, Some(one)));
            assert_eq!(
                netlink.way(ip(near), ip(other), 0).unwrap(),
                Some(LOOPBACK),
                "packets to the host's own address use loopback"
            );
        }
    });
}

#[test]
fn the_router_in_front_is_found_by_route_and_mark() {
    in_namespace(|| {
        let mut netlink = open();
        run("link add one type veth peer name far");
        run("address add 10.0.1.1/24 dev one");
        run("link set one up");
        run("link set far up");
        let far = ip("192.0.2.9");
        assert_eq!(netlink.first_hop(far, 0).unwrap(), None, "no route");
        run("route add default via 10.0.1.7");
        let interface = netlink.link("one").unwrap().unwrap().index;
        let hop = Hop { gateway: ip("10.0.1.7"), own: ip("10.0.1.1"), interface };
        assert_eq!(netlink.first_hop(far, 0).unwrap(), Some(hop));
        assert_eq!(netlink.first_hop(ip("10.0.1.77"), 0).unwrap(), None, "a neighbour is reached without a router");
        run("route add default via 10.0.1.8 table 7");
        run("rule add fwmark 5 table 7");
        assert_eq!(netlink.first_hop(far, 5).unwrap(), Some(Hop { gateway: ip("10.0.1.8"), ..hop }), "by mark");
        assert_eq!(netlink.first_hop(far, 0).unwrap(), Some(hop));
    });
}

#[test]
fn another_namespace_can_be_asked_and_watched() {
    in_namespace(|| {
        let there = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        open();
        let asked = std::thread::spawn(move || {
            assert!(enter_new());
            let (mut here, mut far) = (Netlink::open().unwrap(), Netlink::open_in(there.as_fd()).unwrap());
            let mut monitor = Monitor::open_in(there.as_fd()).unwrap();
            let is_up = |netlink: &mut Netlink| netlink.link("lo").unwrap().unwrap().up;
            assert!(is_up(&mut far) && !is_up(&mut here));
            far.set_mtu(LOOPBACK, 1_300).unwrap();
            wait_readable(&monitor);
            assert!(monitor.drain().unwrap().links);
            assert_ne!(here.link("lo").unwrap().unwrap().mtu, 1_300);
            // The calling thread stayed in its namespace.
            assert!(!is_up(&mut Netlink::open().unwrap()));
            let no_namespace = std::fs::File::open("/dev/null").unwrap();
            assert!(Netlink::open_in(no_namespace.as_fd()).is_err());
        });
        asked.join().unwrap();
        assert_eq!(open().link("lo").unwrap().unwrap().mtu, 1_300);
    });
}

fn rules_by_ip(family: &str) -> String {
    let done = std::process::Command::new("ip").args([family, "rule", "show"]).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn rules_of_other_programs_are_read_with_all_of_their_conditions() {
    in_namespace(|| {
        let mut netlink = open();
        for text in [
            "rule add pref 5210 fwmark 0x80000/0xff0000 lookup main",
            "rule add pref 100 from 192.0.2.0/24 to 10.1.0.0/16 iif lo lookup 100",
            "-6 rule add pref 100 from 2001:db8::/32 oif lo lookup 100",
            // For all packets, with a condition that is not read, that ends the search, after ours.
            "rule add pref 5270 lookup 52",
            "rule add pref 101 from 192.0.2.0/24 ipproto udp lookup 100",
            "rule add pref 102 not from 192.0.2.0/24 lookup 100",
            "rule add pref 103 from 198.51.100.0/24 unreachable",
            "rule add pref 5301 from 192.0.2.0/24 lookup 100",
        ] {
            run(text);
        }
        let of = |ipv4| OtherRule { ipv4, ..OtherRule::default() };
        let mut expected = [
            OtherRule { mark: Some((0x8_0000, 0xff_0000)), ..of(true) },
            OtherRule {
                source: "192.0.2.0/24".parse().ok(),
                destination: "10.1.0.0/16".parse().ok(),
                from: Some(String::from("lo")),
                ..of(true)
            },
            OtherRule { source: "2001:db8::/32".parse().ok(), to: Some(String::from("lo")), ..of(false) },
        ];
        expected.sort_unstable();
        assert_eq!(netlink.other_rules_before(5_301).unwrap(), expected);
    });
}

#[test]
fn fault_j8_rules_are_added_once_and_removed_one_by_one() {
    in_namespace(|| {
        let mut netlink = open();
        let before = (rules_by_ip("-4"), rules_by_ip("-6"));
        let rule = |ipv4, priority, selector| RoutingRule { ipv4, priority, selector, table: 29_696 };
        let (mark, mask) = (0x7400_0000, 0xfe00_0000);
        let rules = [
            rule(true, 5_300, Selector::To("192.168.1.0/24".parse().unwrap())),
            rule(true, 5_300, Selector::Udp { from: 68, to: 67 }),
            rule(true, 5_301, Selector::NotMarked { mark, mask }),
            rule(false, 5_301, Selector::NotMarked { mark, mask }),
            rule(true, 32_700, Selector::Marked { mark, mask }),
        ];
        for _ in 0..2 {
            rules.iter().for_each(|rule| netlink.add_rule(rule).unwrap());
        }
        let priorities = [5_300, 5_301, 32_700];
        let mut found = netlink.own_rules(&priorities).unwrap();
        found.sort_unstable();
        let mut expected = rules.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let shown = rules_by_ip("-4");
        assert!(shown.contains("5301:\tnot from all fwmark 0x74000000/0xfe000000 lookup 29696 proto 116"), "{shown}");
        assert!(shown.contains("5300:\tfrom all to 192.168.1.0/24 lookup 29696 proto 116"), "{shown}");
        assert!(shown.contains("5300:\tfrom all ipproto udp sport 68 dport 67 lookup 29696 proto 116"), "{shown}");
        // Rules of other programs stay, also those of the same priority.
        run("rule add to 10.0.0.0/8 lookup 100 pref 5300");
        assert_eq!(netlink.own_rules(&priorities).unwrap().len(), rules.len());
        for _ in 0..2 {
            rules.iter().for_each(|rule| netlink.remove_rule(rule).unwrap());
        }
        assert_eq!(netlink.own_rules(&priorities).unwrap(), []);
        run("rule del to 10.0.0.0/8 lookup 100 pref 5300");
        assert_eq!((rules_by_ip("-4"), rules_by_ip("-6")), before);
    });
}

#[test]
fn a_monitor_reports_rules() {
    in_namespace(|| {
        let mut monitor = Monitor::open().unwrap();
        open();
        let _ = monitor.drain().unwrap();
        run("rule add to 10.0.0.0/8 lookup 100 pref 5300");
        assert!(monitor.drain().unwrap().rules);
        run("-6 rule add to fd00::/8 lookup 100 pref 5300");
        assert!(monitor.drain().unwrap().rules);
    });
}
