use taut_wire::control::Suite;

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

#[test]
fn daemon_flags_one_by_one() {
    let usual = DaemonFlags::new();
    let routes = |change: fn(&mut RouteOptions)| {
        let mut flags = usual.clone();
        change(&mut flags.routes);
        flags
    };
    for (line, expected) in [
        ("", usual.clone()),
        ("--state /s", DaemonFlags { state: "/s".into(), ..usual.clone() }),
        ("--socket=/x", DaemonFlags { socket: "/x".into(), ..usual.clone() }),
        ("--port 1", DaemonFlags { port: Some(1), ..usual.clone() }),
        ("--lanes auto", usual.clone()),
        ("--lanes 16", DaemonFlags { lanes: Some(16), ..usual.clone() }),
        ("--no-tun-steering", DaemonFlags { tun_steering: false, ..usual.clone() }),
        ("--tun t-1.a", DaemonFlags { tun: "t-1.a".into(), ..usual.clone() }),
        ("--mtu 1280", DaemonFlags { mtu: Some(1280), ..usual.clone() }),
        ("--mtu auto", usual.clone()),
        ("--mtu 65440", DaemonFlags { mtu: Some(65440), ..usual.clone() }),
        ("--no-tun-offload", DaemonFlags { tun_offload: false, ..usual.clone() }),
        ("--no-udp-gso", DaemonFlags { udp_gso: false, ..usual.clone() }),
        ("--low-latency", DaemonFlags { low_latency: true, ..usual.clone() }),
        ("--accept-routes", routes(|routes| routes.accept = true)),
        ("--snat off", routes(|routes| routes.snat = false)),
        ("--snat on", usual.clone()),
        ("--advertise-routes=", usual.clone()),
        ("--no-udp-gro", DaemonFlags { udp_gro: false, ..usual.clone() }),
        ("--search-sockets 0", DaemonFlags { search_sockets: 0, ..usual.clone() }),
        ("--no-ecn", DaemonFlags { ecn: false, ..usual.clone() }),
        ("--no-aes", DaemonFlags { suites: Suites::STOCK, ..usual.clone() }),
        ("--suites chacha20poly1305", DaemonFlags { suites: Suites::STOCK, ..usual.clone() }),
        (
            "--suites AES256GCM,ChaCha20Poly1305",
            DaemonFlags { suites: Suites::STOCK.with(Suite::Aes256Gcm), ..usual.clone() },
        ),
        ("--suites aegis256x4,aes256gcm", usual.clone()),
    ] {
        assert_eq!(daemon(line).unwrap(), expected, "{line}");
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
        ("--snat no", "`on` or `off`"),
        ("--advertise-routes lan", "`lan` is no route"),
        ("--advertise-routes 0.0.0.0/0", "is no route"),
        ("--advertise-routes 10.0.0.0/8,10.0.0.0/8", "each of them once"),
        ("--suites AES", "`AES` is not a suite; write some of AEGIS256X4, AES256GCM, ChaCha20Poly1305"),
        ("--suites AES256GCN", "did you mean `AES256GCM`?"),
        ("--suites=", "`` is not a suite"),
        ("--fast", "no flag `--fast`"),
        ("-x", "no flag `-x`"),
        ("now", "`now` is not expected here"),
        ("--no-udp-gso=yes", "unexpected"),
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
    let line = "--state /s --socket /x --port 7 --tun t --mtu 1300 --lanes 3 --no-tun-steering --no-tun-offload --no-udp-gso --no-udp-gro --suites AES256GCM --no-portmap --low-latency --metrics 127.0.0.1:9288 --accept-routes --snat off --log-level warn,path=debug";
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
    assert_eq!(flags.routes.advertise.len(), 2);
    let relative = daemon("--state s").unwrap().to_arguments();
    assert!(Path::new(&relative[1]).is_absolute(), "the daemon runs in another directory");
}

#[test]
fn metrics_are_served_on_loopback_by_default() {
    let at = |text: &str| daemon(&format!("--metrics {text}")).map(|flags| flags.metrics.unwrap().to_string());
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
        ("1h", 3_600_000),
        ("1d", 86_400_000),
    ] {
        assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
    }
    for text in ["", "s", "-1s", "1w", "1e3s", "5 s", "inf", "nan", "99999999999999999999999h"] {
        assert_eq!(duration(text), None, "{text}");
    }
}
