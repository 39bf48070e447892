use proptest::prelude::*;

use super::*;

fn naming(base: Option<&str>, records: &[(&str, &str)], domains: &[(&str, &str)]) -> Naming {
    let addresses = |text: &str| text.split(' ').filter_map(|one| one.parse().ok()).collect();
    Naming {
        base_domain: base.map(String::from),
        records: records
            .iter()
            .map(|(name, list)| NameRecord { name: String::from(*name), addresses: addresses(list) })
            .collect(),
        domains: domains
            .iter()
            .map(|(domain, list)| SplitDomain { domain: String::from(*domain), servers: addresses(list) })
            .collect(),
    }
}

fn kept(naming: &Naming, accepted: &[&str]) -> (Vec<String>, Vec<(String, DomainFault)>) {
    let accepted: Vec<String> = accepted.iter().map(|one| String::from(*one)).collect();
    let (usable, refused) = naming.usable("home", &accepted);
    let names = usable.records.into_iter().map(|record| record.name);
    let kept = names.chain(usable.domains.into_iter().map(|split| split.domain)).collect();
    (kept, refused.into_iter().map(|refused| (refused.domain, refused.fault)).collect())
}

#[test]
fn fault_e17_a_domain_of_the_whole_internet_needs_consent() {
    for (domain, fault) in [
        ("com", DomainFault::SingleLabel),
        ("lan", DomainFault::SingleLabel),
        ("co.uk", DomainFault::PublicSuffix),
        ("github.io", DomainFault::PublicSuffix),
        ("x.local", DomainFault::Special),
        ("google.internal", DomainFault::Special),
        ("taut.internal", DomainFault::Special),
        ("10.in-addr.arpa", DomainFault::Special),
        ("x.onion", DomainFault::Special),
        ("localhost", DomainFault::Special),
    ] {
        let naming = naming(None, &[], &[(domain, "10.1.0.53")]);
        assert_eq!(kept(&naming, &[]), (vec![], vec![(String::from(domain), fault)]));
        assert_eq!(kept(&naming, &[domain]).0, [domain], "with consent");
        assert_eq!(kept(&naming, &["corp.example"]).0, [""; 0], "other consent");
    }
    for domain in ["corp.example", "example.co.uk", "a.b.c.example", "home.arpa", "lan.home.arpa", "_x.example"] {
        assert_eq!(check_domain(domain), Ok(()), "{domain}");
    }
}

#[test]
fn fault_e17_consent_makes_no_domain_of_other_text() {
    for text in ["", ".", "a..b", "A.example", "x y.example", "x/1.example", "-a.example", "1.2.3.4", "x\n.example"] {
        let naming = naming(None, &[(text, "10.1.0.1")], &[(text, "10.1.0.53")]);
        let (kept, refused) = kept(&naming, &[text]);
        assert_eq!((kept.len(), refused.len()), (0, 2), "{text:?}");
        assert!(refused.iter().all(|(shown, _)| shown.bytes().all(|byte| byte.is_ascii_graphic())));
    }
}

#[test]
fn fault_e17_a_base_domain_that_is_refused_is_the_default() {
    let zone = |base: Option<&str>, accepted: &[&str]| {
        let accepted: Vec<String> = accepted.iter().map(|one| String::from(*one)).collect();
        naming(base, &[], &[]).usable("home", &accepted).0.zone
    };
    for (base, expected) in [
        (None, "home.taut.internal"),
        (Some("corp.taut.internal"), "home.corp.taut.internal"),
        (Some("corp.example"), "home.corp.example"),
        (Some("com"), "home.taut.internal"),
        (Some("co.uk"), "home.taut.internal"),
        (Some("google.internal"), "home.taut.internal"),
        (Some(""), "home.taut.internal"),
    ] {
        assert_eq!(zone(base, &[]), expected);
    }
    assert_eq!(zone(Some("lan"), &["lan"]), "home.lan");
    let long = format!("{0}.{0}.example", "x".repeat(MAX_NAME));
    assert_eq!(zone(Some(&long), &[]), "home.taut.internal", "names would be too long");
}

#[test]
fn records_below_the_networks_own_domain_need_no_consent() {
    let naming = naming(
        None,
        &[
            ("printer", "10.1.0.7 fd01::7"),
            ("*.apps.home.taut.internal", "10.1.0.8"),
            ("*", "10.1.0.9"),
            ("home.taut.internal", "10.1.0.9"),
            ("nas.other.taut.internal", "10.1.0.9"),
            ("git.corp.example", "10.1.0.9"),
            ("*.com", "10.1.0.9"),
            ("x.*.example", "10.1.0.9"),
        ],
        &[],
    );
    let (kept, refused) = kept(&naming, &[]);
    assert_eq!(
        kept,
        ["*.apps.home.taut.internal", "*.home.taut.internal", "git.corp.example", "printer.home.taut.internal"]
    );
    assert_eq!(refused.len(), 4, "{refused:?}");
}

#[test]
fn the_resolver_learns_each_domain_outside_of_the_zone_once() {
    let naming = naming(
        None,
        &[
            ("printer.home.taut.internal", "10.1.0.7"),
            ("*.home.taut.internal", "10.1.0.7"),
            ("git.corp.example", "10.1.0.9"),
            ("*.apps.example", "10.1.0.9"),
            ("x.apps.example", "10.1.0.9"),
        ],
        &[("corp.example", "10.1.0.53"), ("dev.corp.example", "10.1.0.53")],
    );
    assert_eq!(naming.usable("home", &[]).0.outside(), ["apps.example", "corp.example"]);
}

#[test]
fn fault_e17_a_flood_of_names_is_cut() {
    let name = |number: usize| format!("n{number}.example");
    let address: IpAddr = "10.1.0.1".parse().unwrap();
    let addresses: Vec<IpAddr> = (0..200_u8).map(|last| IpAddr::from([10, 1, 0, last])).collect();
    let naming = Naming {
        records: (0..5_000).map(|number| NameRecord { name: name(number), addresses: addresses.clone() }).collect(),
        domains: (0..5_000).map(|number| SplitDomain { domain: name(number), servers: addresses.clone() }).collect(),
        ..Naming::default()
    };
    let (usable, _) = naming.usable("home", &[]);
    assert_eq!((usable.records.len(), usable.domains.len()), (MAX_RECORDS, MAX_DOMAINS));
    assert!(usable.records.iter().all(|record| record.addresses.len() == MAX_RECORD_ADDRESSES));
    assert!(usable.domains.iter().all(|split| split.servers.len() == MAX_SERVERS));
    let twice = NameRecord { name: name(1), addresses: vec![address] };
    let naming = Naming { records: vec![twice.clone(), twice], ..Naming::default() };
    assert_eq!(naming.usable("home", &[]).0.records.len(), 1);
}

#[test]
fn an_address_of_the_host_itself_is_no_server() {
    for address in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254", "255.255.255.255", "::1", "fe80::1", "::"] {
        let naming = naming(None, &[], &[("corp.example", address)]);
        assert_eq!(kept(&naming, &[]).1, [(String::from("corp.example"), DomainFault::NoAddress)], "{address}");
    }
}

proptest! {
    #[test]
    fn any_text_is_judged_without_harm(text in ".{0,300}", accepted in ".{0,20}") {
        let naming = naming(Some(&text), &[(&text, "10.1.0.1")], &[(&text, "10.1.0.53")]);
        let (usable, _) = naming.usable("home", &[accepted]);
        prop_assert!(usable.zone.starts_with("home."));
        prop_assert!(usable.domains.iter().all(|split| is_domain(&split.domain)));
    }
}
