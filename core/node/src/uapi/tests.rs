use proptest::prelude::*;

use super::*;

fn key(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

fn set(text: &str) -> Result<Box<Set>, Errno> {
    match Request::parse(format!("set=1\n{text}\n").as_bytes())? {
        Request::Set(set) => Ok(set),
        Request::Get => Err(Errno::Io),
    }
}

#[test]
fn parses_a_request_of_wg() {
    let text = format!(
        "private_key={}\nlisten_port=51820\nfwmark=51820\nreplace_peers=true\npublic_key={}\npreshared_key={}\nendpoint=[2001:db8::1]:5\n\
         persistent_keepalive_interval=25\nreplace_allowed_ips=true\nallowed_ip=10.0.0.1/8\nallowed_ip=fd00::/64\nallowed_ip=-10.1.1.1\n\
         protocol_version=1\npublic_key={}\nremove=true\n",
        key(1),
        key(2),
        key(3),
        key(4)
    );
    let set = set(&text).unwrap();
    assert!(set.private_key.as_ref().is_some_and(|key| key == &Some(PrivateKey::from_bytes([1; 32]))));
    assert_eq!((set.listen_port, set.fwmark, set.replace_peers), (Some(51820), Some(51820), true));
    let [first, second] = &set.peers[..] else { panic!("two peers") };
    assert_eq!(first.key, PublicKey([2; 32]));
    assert!(first.preshared.as_ref().is_some_and(|key| key.expose() == &[3; 32]));
    assert_eq!(first.endpoint, Some("[2001:db8::1]:5".parse().unwrap()));
    assert_eq!(first.keepalive, Some(Some(Duration::from_secs(25))));
    let allowed: Vec<_> = first.allowed.iter().map(|(prefix, comes)| (prefix.to_string(), *comes)).collect();
    assert_eq!(
        allowed,
        [("10.0.0.0/8".into(), true), ("fd00::/64".into(), true), ("10.1.1.1/32".into(), false)],
        "host bits are cleared"
    );
    assert!(first.replace_allowed && !first.remove && second.remove && second.key == PublicKey([4; 32]));
}

#[test]
fn zeros_remove() {
    let set = set(&format!(
        "private_key={0}\npublic_key={1}\npreshared_key={0}\npersistent_keepalive_interval=0\n",
        key(0),
        key(1)
    ))
    .unwrap();
    assert!(set.private_key.is_some_and(|key| key.is_none()));
    assert_eq!(set.peers[0].keepalive, Some(None));
    assert!(set.peers[0].preshared.as_ref().is_some_and(|key| key == &PresharedKey::NONE));
}

#[test]
fn a_request_that_is_not_understood_is_refused() {
    let peer = format!("public_key={}\n", key(2));
    for text in [
        "listen_port=65536\n",
        "listen_port=+1\n",
        "listen_port=\n",
        "fwmark=0x10\n",
        "replace_peers=false\n",
        "private_key=00\n",
        "what=1\n",
        "endpoint=1.2.3.4:5\n",
        &format!("private_key={}\n", "zz".repeat(32)),
        &format!("private_key=+{}\n", &key(1)[1..]),
        &format!("private_key={}\n", "é".repeat(32)),
        &format!("{peer}endpoint=example.org:5\n"),
        &format!("{peer}endpoint=1.2.3.4\n"),
        &format!("{peer}endpoint=1.2.3.4:0\n"),
        &format!("{peer}endpoint=0.0.0.0:5\n"),
        &format!("{peer}endpoint=[fe80::1%]:5\n"),
        &format!("{peer}endpoint=[fe80::1%eth0]:0\n"),
        &format!("{peer}endpoint=[fe80::1%eth0]\n"),
        &format!("{peer}endpoint=[fe80::1%et/0]:5\n"),
        &format!("{peer}endpoint=[fe80::1%sixteen-letters-]:5\n"),
        &format!("{peer}endpoint=[10.0.0.1%eth0]:5\n"),
        &format!("{peer}endpoint=[ff02::1%eth0]:5\n"),
        &format!("{peer}allowed_ip=10.0.0.0/33\n"),
        &format!("{peer}allowed_ip=--10.0.0.0/8\n"),
        &format!("{peer}allowed_ip=10.0.0.0/+8\n"),
        &format!("{peer}protocol_version=2\n"),
        &format!("{peer}persistent_keepalive_interval=off\n"),
        &format!("{peer}listen_port=1\n"),
        &format!("{peer}private_key={}\n", key(1)),
    ] {
        assert!(matches!(set(text), Err(Errno::Invalid)), "{text}");
    }
    for text in ["no equals sign\n", "\nlisten_port=1\n", &format!("{peer}allowed_ip\n")] {
        assert!(matches!(set(text), Err(Errno::Protocol)), "{text}");
    }
    for text in ["", "\n\n", "get=2\n\n", "get=1\nx=y\n\n", "get=1\n\n\n", "set=2\n\n", "set=1 \n\n"] {
        assert!(matches!(Request::parse(text.as_bytes()), Err(Errno::Invalid)), "{text:?}");
    }
    assert!(matches!(Request::parse(b"get=1\n\n"), Ok(Request::Get)));
}

#[test]
fn a_request_ends_with_an_empty_line() {
    let mut inbox = RequestBuffer::default();
    let mut seen = Vec::new();
    for byte in b"get=1\n\nset=1\nlisten_port=7\n\nget=2\n\nget" {
        inbox.push(&[*byte]);
        while let Some(request) = inbox.request() {
            seen.push(match request {
                Ok(Request::Get) => String::from("get"),
                Ok(Request::Set(set)) => format!("{:?}", set.listen_port),
                Err(errno) => format!("{errno:?}"),
            });
        }
    }
    assert_eq!(seen, ["get", "Some(7)", "Invalid"]);
    assert!(!inbox.is_too_long());
    inbox.push(&vec![b'x'; MAX_REQUEST]);
    assert!(inbox.is_too_long() && inbox.request().is_none());
}

#[test]
fn errors_are_negative() {
    assert_eq!(*Errno::print(Ok(())), "errno=0\n\n");
    assert_eq!(*Errno::print(Err(Errno::Invalid)), "errno=-22\n\n");
    assert_eq!(*Errno::print(Err(Errno::AddressInUse)), "errno=-98\n\n");
}

fn prefixes() -> impl Strategy<Value = Vec<Prefix>> {
    let v4 =
        (any::<u32>(), 0..=32_u8).prop_map(|(bits, length)| Prefix::new(std::net::IpAddr::V4(bits.into()), length));
    let v6 =
        (any::<u128>(), 0..=128_u8).prop_map(|(bits, length)| Prefix::new(std::net::IpAddr::V6(bits.into()), length));
    proptest::collection::vec(prop_oneof![v4, v6].prop_map(Result::unwrap), 0..5)
}

proptest! {
    #[test]
    fn any_text_is_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut inbox = RequestBuffer::default();
        inbox.push(&bytes);
        let _ = (inbox.request().is_some(), Request::parse(&bytes).is_ok());
    }

    #[test]
    fn any_text_of_known_words_is_handled(
        words in proptest::collection::vec(
            ("(private_key|listen_port|public_key|preshared_key|endpoint|allowed_ip|remove|replace_peers|[a-z_=]{0,9})",
             "(true|[0-9]{1,7}|[0-9a-f]{64}|-?[0-9.:/]{0,12}|\\PC{0,9})"),
            0..9,
        ),
    ) {
        let text: String = words.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        let _ = set(&text).is_ok();
    }

    #[test]
    fn a_printed_interface_can_be_set(
        private in proptest::option::of(any::<[u8; 32]>().prop_filter("not zero", |key| key != &[0; 32])),
        listen_port in any::<u16>(),
        fwmark in any::<u32>(),
        key in any::<[u8; 32]>(),
        preshared in any::<[u8; 32]>(),
        port in 1..=u16::MAX,
        scope in proptest::option::of(1_u32..20),
        seconds in any::<u16>(),
        allowed in prefixes(),
    ) {
        let private = private.map(PrivateKey::from_bytes);
        let preshared = PresharedKey::from_bytes(preshared);
        let endpoint = match scope {
            None => SocketAddr::from(([192, 0, 2, 1], port)),
            Some(scope) => std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, scope).into(),
        };
        let zone = scope.filter(|scope| *scope > 9).map(|scope| format!("eth{scope}.1"));
        let keepalive = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        let peer = InterfacePeer {
            key: PublicKey(key),
            preshared: &preshared,
            endpoint: Some(endpoint),
            zone: zone.clone(),
            last_handshake: Duration::new(7, 8),
            received: 9,
            sent: 10,
            keepalive,
            allowed: allowed.clone(),
        };
        let text = Interface { private_key: private.as_ref(), listen_port, fwmark, peers: vec![peer] }.print();
        // Counters cannot be set.
        let figures = ["last_handshake", "rx_bytes", "tx_bytes", "errno"];
        let lines = text.trim_end().lines().filter(|line| !figures.iter().any(|figure| line.starts_with(figure)));
        let set = set(&lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        prop_assert!(set.private_key == private.map(Some));
        prop_assert_eq!((set.listen_port.unwrap_or(0), set.fwmark.unwrap_or(0)), (listen_port, fwmark));
        let peer = &set.peers[0];
        let mut read = peer.endpoint;
        prop_assert_eq!(&peer.zone, &zone);
        if let (Some(SocketAddr::V6(read)), Some(_), Some(scope)) = (&mut read, &zone, scope) {
            read.set_scope_id(scope);
        }
        prop_assert_eq!((peer.key, read), (PublicKey(key), Some(endpoint)));
        prop_assert!(peer.preshared.as_ref().unwrap_or(&PresharedKey::NONE) == &preshared);
        prop_assert_eq!(peer.keepalive, Some(keepalive));
        prop_assert_eq!(&peer.allowed, &allowed.into_iter().map(|prefix| (prefix, true)).collect::<Vec<_>>());
    }
}
