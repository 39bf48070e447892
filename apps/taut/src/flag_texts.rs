//! The help texts of the daemon's flags, which several verbs show. The macros choose between the text of a build with a feature and that of one without it:
//! `concat!` takes only literals.

#[allow(unused_macros, reason = "a build may lack all of these features")]
macro_rules! first {
    ($first:literal, $second:literal) => {
        $first
    };
}
#[allow(unused_macros, reason = "a build may have all of these features")]
macro_rules! second {
    ($first:literal, $second:literal) => {
        $second
    };
}

#[cfg(feature = "aes")]
use first as aes;
#[cfg(feature = "config")]
pub(crate) use first as file;
#[cfg(feature = "portmap")]
use first as portmap;
#[cfg(feature = "userspace")]
use first as userspace;
#[cfg(not(feature = "aes"))]
use second as aes;
#[cfg(not(feature = "config"))]
pub(crate) use second as file;
#[cfg(not(feature = "portmap"))]
use second as portmap;
#[cfg(not(feature = "userspace"))]
use second as userspace;

/// The flags of a daemon that are no settings.
pub(crate) const PLACES: &str = concat!(
    "--state DIR        directory of the keys, the membership and the last map (default /var/lib/taut, or on OpenWrt /etc/taut/state)\n",
    "--socket PATH      local socket of the daemon (default /run/taut/taut.sock)\n",
    file!(
        "--config FILE      file with further settings, `NAME = VALUE` lines as in TOML (default /etc/taut/taut.toml, if it exists; /dev/null: none)\n",
        ""
    ),
    "--network NAME     another network of this host, with a directory, socket",
    file!(", file", ""),
    " and device of its own (see `taut help networks`)\n"
);

/// The settings.
pub(crate) const SETTINGS: &str = concat!(
    "\
--port N           UDP port (default: that of the last run, else 8288, else any free one)
--lanes N          threads that move packets, 1 to 16; each uses a UDP port (default auto: one, and more while several flows need them)
",
    "--tun NAME         name of the TUN device (default taut0)",
    userspace!(
        "\
; `userspace` needs none, no root and no capability: programs use what follows (docs/containers.md)
--socks5 ADDRESS   userspace: a SOCKS5 proxy into the network (PORT on 127.0.0.1, or IP:PORT; default none)
--http-proxy ADDRESS  userspace: the same as an HTTP proxy (CONNECT, and http:// URLs)
--forward LIST     userspace: local ports that lead to peers: LOCAL=PEER:PORT with commas, such as 2222=nas:22; may be repeated
--publish LIST     userspace: ports of this node that lead to programs: PORT=LOCAL with commas, such as 80=127.0.0.1:8080; may be repeated
",
        "\n"
    ),
    "\
--mtu N            MTU of the TUN device, 1280 to 65440 (default auto: the longest packet that a path carries, which is measured)
--advertise-routes LIST  offer the networks behind this host to other nodes, once approved: prefixes with commas, such as 192.168.10.0/24;
                   `10.1.0.0/24 as 10.201.0.0/24` offers it under other addresses
--accept-routes    use the approved networks behind other nodes
--snat on|off      give packets to the networks behind this host its own address (default on; off: the networks route back by this host)
--advertise-exit-node  offer to be an exit node: the way to the internet for other nodes, once approved
--exit-node NODE   send what goes to the internet through this exit node: its name or overlay address, auto (the nearest that works), or none
--exit-node-allow-lan-access  keep the local networks (private addresses alone) reachable while an exit node is in use
--kill-switch      while an exit node is chosen, nothing leaves this host in the clear, also when the daemon ends: nftables rules stay until
                   `taut down`, `--exit-node none` or `--kill-switch=false`
--low-latency      busy-poll for 50 ms after each packet: lower latency, up to one core of CPU time per lane
--rotate-key-every TIME  replace the WireGuard key when it is this old, at least 1d (default never); `taut rotate-key` does it at once
--metrics ADDRESS  serve Prometheus metrics on this address (PORT on 127.0.0.1, or IP:PORT); anyone who can connect can read them
--log-level LEVELS events to record: error, warn, info, debug or trace, with exceptions per area such as info,path=debug (default info)
--no-tun-offload   disable checksum and segmentation offload of the TUN device
--no-tun-steering  distribute packets to lanes in user space instead of with eBPF
--no-udp-gso       disable segmentation offload of the UDP socket
--no-udp-gro       disable receive offload of the UDP socket
--no-ecn           do not ask TCP in the overlay for congestion notification, and mark no packets: more delay beside a fast stream
--no-dns           leave the host's resolver alone (also --accept-dns=false): programs find no names of the network
--dns-search       have programs find nodes by bare names such as `nas`, too, after the host's own domains
--accept-domains L the operator may have this host ask for these domains, although they are single labels, public suffixes or the host's own (default none)
--dns-filter WHAT  drop answers that lead public names to addresses of the overlay, or to all private ones: none (default), overlay, private
--exit-dns LIST   while an exit node is used: ask these public servers through it for names of the internet (default exit: the exit node itself)
",
    portmap!("--no-portmap       do not request port mappings from the router (PCP, NAT-PMP, UPnP)\n", ""),
    "\
--search-sockets N sockets of a port search, which finds a peer behind a symmetric NAT, 0 to 1024 (default 256; 0: stay on the relay)
--no-sandbox       keep all rights of the user that the daemon runs as, and not only those that it needs (see docs/sandbox.md)",
    aes!(
        "
--suites LIST      ciphers for data between Taut nodes: AEGIS256X4, AES256GCM, ChaCha20Poly1305 (default: all that this processor has fast; the
                   first of them that both ends have is used, and the last one is always available)
--no-aes           short for --suites ChaCha20Poly1305",
        ""
    )
);
