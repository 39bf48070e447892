use taut_agent::{ExitChoice, RouteOptions};
use taut_wire::control::Suites;

use super::*;

fn words(line: &str) -> Words {
    Words::new(line.split_whitespace().map(OsString::from))
}

fn daemon(line: &str) -> Result<DaemonFlags, Fault> {
    let (mut words, mut flags) = (words(line), DaemonFlags::new());
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flags.take(flag, &mut words)? => {}
            other => return Err(unexpected(other)),
        }
    }
    Ok(flags)
}

/// The options of a daemon with these flags alone.
fn config(line: &str) -> DaemonConfig {
    let DaemonFlags { state, socket, given, .. } = daemon(line).unwrap();
    let mut config = DaemonConfig { state_dir: state, socket, given, ..DaemonConfig::default() };
    settings::resolve(&mut config);
    config.given = Given::default();
    config
}

#[test]
fn daemon_flags_one_by_one() {
    let usual = DaemonConfig { state_dir: chosen::state(None), socket: SOCKET.into(), ..DaemonConfig::default() };
    let routes = |change: fn(&mut RouteOptions)| {
        let mut config = usual.clone();
        change(&mut config.routes);
        config
    };
    for (line, expected) in [
        ("", usual.clone()),
        ("--state /s", DaemonConfig { state_dir: "/s".into(), ..usual.clone() }),
        ("--socket=/x", DaemonConfig { socket: "/x".into(), ..usual.clone() }),
        ("--port 1", DaemonConfig { port: Some(1), ..usual.clone() }),
        ("--lanes auto", usual.clone()),
        ("--lanes 16", DaemonConfig { lanes: Some(16), ..usual.clone() }),
        ("--no-tun-steering", DaemonConfig { tun_steering: false, ..usual.clone() }),
        ("--tun t-1.a", DaemonConfig { tun_name: "t-1.a".into(), ..usual.clone() }),
        #[cfg(feature = "userspace")]
        (
            "--tun userspace --socks5 1080 --publish 80=8080 --publish 22=22",
            DaemonConfig {
                tun_name: "userspace".into(),
                socks5: Some(([127, 0, 0, 1], 1080).into()),
                publish: vec!["80=8080".parse().unwrap(), "22=22".parse().unwrap()],
                ..usual.clone()
            },
        ),
        #[cfg(feature = "userspace")]
        (
            "--forward none --forward 1=a:1 --forward 2=b:2,3=c:3",
            DaemonConfig {
                forwards: ["1=a:1", "2=b:2", "3=c:3"].map(|text| text.parse().unwrap()).to_vec(),
                ..usual.clone()
            },
        ),
        ("--mtu 1280", DaemonConfig { mtu: Some(1280), ..usual.clone() }),
        ("--mtu auto", usual.clone()),
        ("--mtu 65440", DaemonConfig { mtu: Some(65440), ..usual.clone() }),
        ("--tun-offload=false", DaemonConfig { tun_offload: false, ..usual.clone() }),
        ("--no-ecn --ecn", usual.clone()),
        ("--low-latency=off", usual.clone()),
        ("--no-tun-offload", DaemonConfig { tun_offload: false, ..usual.clone() }),
        ("--no-udp-gso", DaemonConfig { udp_gso: false, ..usual.clone() }),
        ("--low-latency", DaemonConfig { low_latency: true, ..usual.clone() }),
        ("--accept-routes", routes(|routes| routes.accept = true)),
        ("--snat off", routes(|routes| routes.snat = false)),
        ("--snat on", usual.clone()),
        ("--advertise-routes=", usual.clone()),
        ("--advertise-exit-node", routes(|routes| routes.advertise_exit_node = true)),
        ("--exit-node auto", routes(|routes| routes.exit_node = ExitChoice::Auto)),
        ("--exit-node Gate", routes(|routes| routes.exit_node = ExitChoice::Node(String::from("gate")))),
        ("--exit-node none", usual.clone()),
        ("--no-udp-gro", DaemonConfig { udp_gro: false, ..usual.clone() }),
        ("--search-sockets 0", DaemonConfig { search_sockets: 0, ..usual.clone() }),
        ("--no-dns", DaemonConfig { dns: false, ..usual.clone() }),
        ("--accept-dns=false", DaemonConfig { dns: false, ..usual.clone() }),
        ("--accept-dns --dns-search", DaemonConfig { dns_search: true, ..usual.clone() }),
        ("--no-ecn", DaemonConfig { ecn: false, ..usual.clone() }),
        ("--no-aes", DaemonConfig { suites: Suites::STOCK, ..usual.clone() }),
        ("--suites chacha20poly1305", DaemonConfig { suites: Suites::STOCK, ..usual.clone() }),
        #[cfg(feature = "aes")]
        (
            "--suites AES256GCM,ChaCha20Poly1305",
            DaemonConfig { suites: Suites::STOCK.with(taut_wire::control::Suite::Aes256Gcm), ..usual.clone() },
        ),
        #[cfg(feature = "aes")]
        ("--suites aegis256x4,aes256gcm", usual.clone()),
    ] {
        assert_eq!(format!("{:?}", config(line)), format!("{expected:?}"), "{line}");
    }
}

#[test]
fn wrong_flags_are_named() {
    for (line, part) in [
        ("--port 0", "1 to 65535"),
        ("--port 65536", "1 to 65535"),
        ("--port x", "1 to 65535"),
        ("--lanes 0", "1 to 16"),
        ("--lanes 17", "1 to 16"),
        ("--mtu 1279", "1280 to 65440"),
        ("--mtu 65441", "1280 to 65440"),
        ("--tun a/b", "letters"),
        ("--tun sixteen-letters-", "letters"),
        ("--tun ..", "letters"),
        ("--state", "missing"),
        ("--suites AES", "`AES` is not a suite; write some of AEGIS256X4, AES256GCM, ChaCha20Poly1305"),
        ("--suites AES256GCN", "did you mean `AES256GCM`?"),
        ("--suites=", "`` is not a suite"),
        #[cfg(feature = "userspace")]
        ("--forward 1=a:1,1=b:1", "each local port once"),
        #[cfg(feature = "userspace")]
        ("--forward nas:22", "write LOCAL=PEER:PORT"),
        #[cfg(feature = "userspace")]
        ("--publish 80=nas:80", "write PORT=LOCAL"),
        #[cfg(feature = "userspace")]
        ("--socks5 0", "127.0.0.1:1080"),
        #[cfg(not(feature = "userspace"))]
        ("--tun userspace", "built without userspace networks"),
        #[cfg(not(feature = "userspace"))]
        ("--socks5 1080", "built without userspace networks"),
        #[cfg(not(feature = "userspace"))]
        ("--forward 1=a:1", "take the setting away"),
        #[cfg(not(feature = "aes"))]
        ("--suites ChaCha20Poly1305,AES256GCM", "built without AES256GCM"),
        #[cfg(not(feature = "portmap"))]
        ("--portmap", "built without port mappings"),
        ("--advertise-routes lan", "`lan` is no route"),
        ("--advertise-routes 0.0.0.0/0", "`--advertise-exit-node` offers the way"),
        ("--exit-node a/b", "the name of a node"),
        ("--advertise-routes 127.0.0.0/8", "loopback"),
        ("--advertise-routes 10.0.0.0/8,10.0.0.0/8", "each of them once"),
        ("--accept-dns=no", "`true` or `false`"),
        ("--fast", "no flag `--fast`"),
        ("-x", "no flag `-x`"),
        ("now", "`now` is not expected here"),
        ("--no-udp-gso=yes", "unexpected"),
        ("--udp-gso=maybe", "`true` or `false`"),
        ("--no-lanes", "no flag `--no-lanes`"),
    ] {
        match daemon(line) {
            Err(Fault::Usage { message, .. }) => assert!(message.contains(part), "{line}: {message}"),
            Err(Fault::UnknownFlag(flag)) => assert!(part.contains(&flag), "{line}: {flag}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(matches!(daemon("--help"), Err(Fault::Help)));
    assert!(matches!(daemon("-h"), Err(Fault::Help)));
}

#[test]
fn a_daemon_that_up_starts_gets_the_same_flags() {
    let line = "--state /s --socket /x --port 7 --tun t --mtu 1300 --lanes 3 --no-tun-steering --no-tun-offload --no-udp-gso --no-udp-gro --suites ChaCha20Poly1305 --no-portmap --accept-routes --advertise-exit-node --exit-node auto --snat=off --no-dns --dns-search --low-latency --metrics 127.0.0.1:9288 --log-level warn,path=debug";
    let mut flags = daemon(line).unwrap();
    // The words of a mapped route are one argument.
    let list = "192.168.10.0/24, 10.1.0.0/24 as 10.201.0.0/24";
    let mut words = Words::new([OsString::from("--advertise-routes"), list.into()].into_iter());
    let Some(Word::Flag(flag)) = words.next().unwrap() else { panic!() };
    assert!(flags.take(&flag, &mut words).unwrap());
    let mut words = Words::new(flags.to_arguments().into_iter());
    let mut again = DaemonFlags::new();
    while let Some(Word::Flag(flag)) = words.next().unwrap() {
        assert!(again.take(&flag, &mut words).unwrap(), "{flag}");
    }
    assert_eq!(again, flags);
    assert!(flags.given.of(Origin::Flag).any(|(_, value)| value == "192.168.10.0/24,10.1.0.0/24 as 10.201.0.0/24"));
    let relative = daemon("--state s").unwrap().to_arguments();
    assert!(Path::new(&relative[1]).is_absolute(), "the daemon runs in another directory");
}

#[test]
fn metrics_are_served_on_loopback_by_default() {
    let at = |text: &str| {
        daemon(&format!("--metrics {text}")).map(|flags| flags.given.of(Origin::Flag).next().unwrap().1.to_owned())
    };
    assert_eq!(at("9288").unwrap(), "127.0.0.1:9288");
    assert_eq!(
        (at("[::]:9288").unwrap(), at("10.0.0.1:1").unwrap()),
        (String::from("[::]:9288"), String::from("10.0.0.1:1"))
    );
    for text in ["0", "127.0.0.1:0", "10.0.0.1", "localhost:9", "70000"] {
        assert!(matches!(at(text), Err(Fault::Usage { .. })), "{text}");
    }
}

#[test]
fn times() {
    for (text, milliseconds) in [
        ("5", 5_000),
        ("5s", 5_000),
        ("500ms", 500),
        ("2m", 120_000),
        ("0.5s", 500),
        (".5s", 500),
        ("5.s", 5_000),
        ("1.25h", 4_500_000),
        ("0.1000000000000000000009s", 100),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
    ] {
        assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
    }
    for text in [
        "",
        "s",
        "-1s",
        "1w",
        "1e3s",
        "5 s",
        ".",
        ".s",
        "1.2.3s",
        "+1s",
        "1.+5s",
        "1.0000000000000000000+5s",
        "inf",
        "nan",
        "99999999999999999999999h",
    ] {
        assert_eq!(duration(text), None, "{text}");
    }
}
