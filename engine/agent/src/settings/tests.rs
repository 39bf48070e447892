use super::*;

fn config(values: &[(&str, Origin, &str)]) -> DaemonConfig {
    let mut config = DaemonConfig::default();
    for (name, origin, text) in values {
        find(name).unwrap().give(&mut config.given, *origin, text).unwrap();
    }
    resolve(&mut config);
    config
}

#[test]
fn the_first_origin_that_gives_a_value_holds() {
    let all = [
        ("lanes", Origin::File, "1"),
        ("lanes", Origin::Set, "2"),
        ("lanes", Origin::Environment, "3"),
        ("lanes", Origin::Flag, "4"),
    ];
    assert_eq!(config(&[]).lanes, None);
    for number in 1..=4 {
        // In any order.
        let mut some = all[..number].to_vec();
        some.reverse();
        let config = config(&some);
        assert_eq!((config.lanes, config.given.origin("lanes")), (Some(number as u8), Some(all[number - 1].1)));
    }
    let mut config = config(&all[..2]);
    config.given.remove("lanes", Origin::Set);
    resolve(&mut config);
    assert_eq!(config.lanes, Some(1));
    config.given.remove("lanes", Origin::File);
    resolve(&mut config);
    assert_eq!((config.lanes, config.given.origin("lanes")), (None, None));
}

#[test]
fn every_value_is_shown_as_it_is_written() {
    let defaults = DaemonConfig::default();
    for setting in SETTINGS {
        let shown = setting.value(&defaults);
        assert_eq!(setting.check(&shown).as_deref(), Ok(shown.as_str()), "{}", setting.name);
        assert!(setting.is_switch == matches!(shown.as_str(), "true" | "false"), "{}", setting.name);
        assert_eq!(setting.name, setting.name.to_lowercase());
    }
    for (name, written, shown) in [
        ("rotate-key-every", "30d", "30d"),
        ("metrics", "9288", "127.0.0.1:9288"),
        ("log-level", "warn,path=debug", "warn,path=debug"),
        ("suites", "aes256gcm", "AES256GCM,ChaCha20Poly1305"),
        ("low-latency", "on", "true"),
        ("accept-domains", "Lan., corp.example,lan", "lan,corp.example"),
        ("accept-domains", "none", "none"),
        ("dns-filter", "private", "private"),
        ("exit-dns", "9.9.9.9, 2620:fe::fe", "9.9.9.9,2620:fe::fe"),
    ] {
        assert_eq!(find(name).unwrap().check(written).unwrap(), shown);
    }
    for (name, wrong) in
        [("accept-domains", "a b"), ("accept-domains", "."), ("dns-filter", "on"), ("exit-dns", "10.0.0.1")]
    {
        assert!(find(name).unwrap().check(wrong).is_err(), "{name} {wrong}");
    }
    assert_eq!(find("log-level").unwrap().variable(), "TAUT_LOG_LEVEL");
    assert_eq!(meant("lane"), "; did you mean `lanes`?");
}

#[test]
fn lines_are_read_as_they_are_written() {
    let text =
        "# a comment\n\nlanes = 4\nlog-level = \"warn,path=debug\"  # why\n portmap=false#off\nmetrics = \"[::1]:9\"\n";
    let read: Vec<_> = read_lines(text).into_iter().map(Result::unwrap).collect();
    let named: Vec<_> = read.iter().map(|(setting, value)| (setting.name, value.as_str())).collect();
    let wanted = [("lanes", "4"), ("log-level", "warn,path=debug"), ("portmap", "false"), ("metrics", "[::1]:9")];
    assert_eq!(named, wanted);
    let again: Vec<_> = read_lines(&write_lines(named.iter().copied())).into_iter().map(Result::unwrap).collect();
    assert!(read.iter().zip(&again).all(|(one, other)| one.0.name == other.0.name && one.1 == other.1));
}

#[test]
fn a_wrong_line_is_named_and_the_others_are_read() {
    for (line, part) in [
        ("lanes 4", "has no `=`"),
        ("lane = 4", "did you mean `lanes`?"),
        ("lanes = 99", "1 to 16"),
        ("lanes = \"4", "second"),
        ("lanes = \"4\" 5", "`5`"),
        ("mtu = auto", "second time"),
        ("= 4", "no setting ``"),
    ] {
        let read = read_lines(&format!("mtu = 1300\n{line}\nportmap = true"));
        assert_eq!(read.len(), 3);
        let bad = read[1].as_ref().err().unwrap();
        assert!(bad.line == 2 && bad.what.contains(part), "{line}: {bad}");
        assert!(read[0].is_ok() && read[2].is_ok());
    }
}
