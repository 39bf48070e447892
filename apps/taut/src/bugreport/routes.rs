//! Routes as `/proc/net/route` and `/proc/net/ipv6_route` list them, with addresses in the usual notation.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the default routes, and all routes to the interface `tun`, one per line. `ipv4` and `ipv6`: the content of the kernel's files.
pub(super) fn shown(ipv4: &str, ipv6: &str, tun: Option<&str>) -> String {
    let mut text = String::new();
    for (prefix, gateway, metric, interface) in ipv4.lines().filter_map(v4).chain(ipv6.lines().filter_map(v6)) {
        let is_default = prefix.ends_with("/0") && interface != "lo";
        if is_default || Some(interface) == tun {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{prefix} via {gateway} on {interface}, metric {metric}");
        }
    }
    text
}

/// A route: prefix, gateway, metric and interface.
type Route<'a> = (String, String, u32, &'a str);

fn v4(line: &str) -> Option<Route<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // The kernel prints an address as a number in the byte order of the host.
    let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok().map(u32::to_ne_bytes);
    let prefix = format!("{}/{}", Ipv4Addr::from(number(1)?), u32::from_ne_bytes(number(7)?).count_ones());
    Some((prefix, Ipv4Addr::from(number(2)?).to_string(), words.get(6)?.parse().ok()?, words[0]))
}

fn v6(line: &str) -> Option<Route<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let address = |place: usize| u128::from_str_radix(words.get(place)?, 16).ok().map(Ipv6Addr::from);
    let number = |place: usize| u32::from_str_radix(words.get(place)?, 16).ok();
    let prefix = format!("{}/{}", address(0)?, number(1)?);
    Some((prefix, address(4)?.to_string(), number(5)?, words.get(9)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn routes_have_addresses() {
        let ipv4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                    eth0\t00000000\t010011AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                    eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                    taut0\t02004064\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
        let ipv6 = "fd000000000000000000000000000002 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000001 00000000 00000001    taut0\n\
                    00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
        let expected = "0.0.0.0/0 via 172.17.0.1 on eth0, metric 100\n\
                        100.64.0.2/32 via 0.0.0.0 on taut0, metric 0\n\
                        fd00::2/128 via :: on taut0, metric 1024\n";
        assert_eq!(shown(ipv4, ipv6, Some("taut0")), expected);
        assert_eq!(shown("", "x y", None), "");
    }
}
