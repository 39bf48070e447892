//! Addresses to which the coordinator connects when another party names them: an OpenID provider, or the owner of a webhook (fault E15).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Public,
    /// This host, a private network, or an overlay: a server of one's own may be there.
    Private,
    /// Link-local, where clouds keep the metadata of hosts, multicast, reserved: no server of anyone is there.
    Never,
}

/// Returns true if the coordinator may connect to this address.
pub(crate) fn is_allowed(address: IpAddr, allow_private: bool) -> bool {
    match reach(address) {
        Reach::Public => true,
        Reach::Private => allow_private,
        Reach::Never => false,
    }
}

fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => of_ipv4(address),
        IpAddr::V6(address) => of_ipv6(address),
    }
}

/// IANA's registry of special addresses (RFC 6890). Metadata of clouds outside of 169.254.0.0/16: 100.100.100.200 (Alibaba), 168.63.129.16 (Azure), 192.0.0.192 (Oracle).
fn of_ipv4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [100, 100, 100, 200] | [168, 63, 129, 16] => Reach::Never,
        [0 | 224..=255, ..] | [169, 254, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] => Reach::Never,
        [198, 51, 100, _] | [203, 0, 113, _] => Reach::Never,
        [10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18..=19, ..] => {
            Reach::Private
        }
        _ => Reach::Public,
    }
}

/// IPv6 addresses that contain an IPv4 address are where that one is. fd00:ec2::254 has the metadata of Amazon, fd20:ce::254 that of Google.
fn of_ipv6(address: Ipv6Addr) -> Reach {
    if let Some(inner) = address.to_ipv4_mapped() {
        return of_ipv4(inner);
    }
    let [a, b, c, d, e, f, high, low] = address.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        of_ipv4(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        _ if address.is_loopback() => Reach::Private,
        [0x64, 0xff9b, 0, 0, 0, 0] => inner(high, low),
        [0x2002, ..] => inner(b, c),
        [0xfd00, 0xec2, 0, 0, 0, 0] | [0xfd20, 0xce, 0, 0, 0, 0] => Reach::Never,
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, ..] => Reach::Never,
        [0x2000..=0x3fff, ..] => Reach::Public,
        [0xfc00..=0xfdff, ..] => Reach::Private,
        _ => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e15_each_address_is_where_it_is() {
        let all = |texts: &[&str], expected: Reach| {
            for text in texts {
                assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
            }
        };
        all(&["1.1.1.1", "9.255.255.255", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"], Reach::Public);
        all(&["127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"], Reach::Private);
        all(&["100.64.0.1", "::1", "fd12::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::"], Reach::Private);
        all(&["169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "100.100.100.200"], Reach::Never);
        all(&["168.63.129.16", "192.0.0.192", "192.0.2.1", "203.0.113.1"], Reach::Never);
        all(&["fe80::1", "ff02::1", "::", "::7f00:1", "fd00:ec2::254", "fd20:ce::254", "2001:db8::1"], Reach::Never);
        all(&["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001::1", "fec0::1"], Reach::Never);
    }

    #[test]
    fn fault_e15_the_flag_opens_private_networks_only() {
        for (text, without, with) in
            [("1.1.1.1", true, true), ("10.0.0.1", false, true), ("169.254.169.254", false, false)]
        {
            let address = text.parse().unwrap();
            assert_eq!((is_allowed(address, false), is_allowed(address, true)), (without, with), "{text}");
        }
    }
}
