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
        assert!(setting.is_switch() == matches!(shown.as_str(), "true" | "false"), "{}", setting.name);
        assert_eq!(setting.name, setting.name.to_lowercase());
    }
    for (name, written, shown) in [
        ("rotate-key-every", "30d", "30d"),
        ("metrics", "9288", "127.0.0.1:9288"),
        #[cfg(feature = "userspace")]
        ("socks5", "1080", "127.0.0.1:1080"),
        #[cfg(feature = "userspace")]
        ("http-proxy", "[::1]:8080", "[::1]:8080"),
        #[cfg(feature = "userspace")]
        ("forward", "2222=nas:22, [::1]:80=[fd00::2]:80", "127.0.0.1:2222=nas:22,[::1]:80=[fd00::2]:80"),
        ("forward", "none", "none"),
        #[cfg(feature = "userspace")]
        ("publish", "80=8080,22=[::1]:22", "80=127.0.0.1:8080,22=[::1]:22"),
        ("log-level", "warn,path=debug", "warn,path=debug"),
        #[cfg(feature = "aes")]
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
fn what_was_kept_is_read_as_it_was_written() {
    let kept = [
        ("lanes", "4"),
        ("log-level", "warn,path=debug"),
        ("portmap", "false"),
        ("advertise-routes", "10.1.0.0/24 as 10.201.0.0/24"),
    ];
    let read: Vec<_> = read_lines(&write_lines(kept.into_iter())).into_iter().map(Result::unwrap).collect();
    let named: Vec<_> = read.iter().map(|(setting, value)| (setting.name, value.as_str())).collect();
    assert_eq!(named, kept);
}

#[test]
fn fault_l5_a_kept_line_of_a_later_version_is_named_and_the_others_are_read() {
    // A program without a reader of TOML knows neither tables nor what a name is.
    let (table, no_name) = if cfg!(feature = "config") { ("tables", "a name") } else { ("1 to 16", "no setting ``") };
    for (line, part) in
        [("lane = 4", "did you mean `lanes`?"), ("lanes = 99", "1 to 16"), ("lanes = {}", table), ("= 4", no_name)]
    {
        let read = read_lines(&format!("mtu = \"1300\"\n{line}\necn = true"));
        assert_eq!(read.len(), 3);
        let bad = read[1].as_ref().err().unwrap();
        assert!(bad.at.line == 2 && bad.what.contains(part), "{line}: {bad}");
        assert!(read[0].is_ok() && read[2].is_ok());
    }
}

#[cfg(feature = "config")]
fn in_file(line: &str) -> Result<String, String> {
    let [Ok(entry)] = &taut_base::read_toml(line)[..] else { panic!("{line}") };
    find(&entry.name).unwrap().check_file(&entry.value)
}

#[cfg(feature = "config")]
#[test]
fn a_value_of_the_file_has_the_kind_of_its_setting() {
    for (line, shown) in [
        ("lanes = 4", "4"),
        ("lanes = \"auto\"", "auto"),
        ("metrics = 9288", "127.0.0.1:9288"),
        ("metrics = \"[::1]:9288\"", "[::1]:9288"),
        ("portmap = false", "false"),
        ("snat = false", "off"),
        ("snat = \"on\"", "on"),
        ("log-level = \"info,path=debug\"", "info,path=debug"),
        (
            "advertise-routes = [\"192.168.7.0/24\", \"10.1.0.0/24 as 10.201.0.0/24\"]",
            "192.168.7.0/24,10.1.0.0/24 as 10.201.0.0/24",
        ),
        ("advertise-routes = \"none\"", "none"),
        ("accept-domains = []", "none"),
        ("exit-dns = []", "exit"),
        ("suites = []", "ChaCha20Poly1305"),
        ("rotate-key-every = \"30d\"", "30d"),
    ] {
        assert_eq!(in_file(line).as_deref(), Ok(shown), "{line}");
    }
    for (line, what) in [
        ("lanes = \"4\"", "`lanes` is a text, and has to be a whole number, or a word in quotes"),
        ("lanes = true", "`lanes` is true or false, and has to be a whole number, or a word in quotes"),
        ("lanes = 99", "lanes = 99: write `auto`, or a number from 1 to 16"),
        ("lanes = -1", "lanes = -1: write `auto`, or a number from 1 to 16"),
        ("portmap = \"false\"", "`portmap` is a text, and has to be true or false: portmap = true"),
        ("portmap = 1", "`portmap` is a whole number, and has to be true or false: portmap = true"),
        ("log-level = [\"info\"]", "`log-level` is an array, and has to be a text in quotes: log-level = \"…\""),
        ("suites = 1", "`suites` is a whole number, and has to be an array of texts: suites = [\"…\"]"),
        ("tun = 7", "`tun` is a whole number, and has to be a text in quotes: tun = \"…\""),
    ] {
        assert_eq!(in_file(line), Err(String::from(what)), "{line}");
    }
}
