"""nftables text for one NAT router: `eth0` (and `eth2`, … for guests) inside, `eth1` outside.

Linux has only one kind of NAT of its own: every flow is a separate mapping. These maps provide the others:

    out    inside address and port → external port     the mapping of an endpoint-independent NAT
    back   external port → inside address and port     the reverse, for permitted packets from outside
    sent   external port and outside address           peers that an address-dependent filter admits

Outgoing packets renew the entries: at priority mangle before the kernel translates, and right after. Only flows unknown to the kernel look
anything up. Packets that may not come in are dropped silently and before the kernel records a flow: such a flow would occupy the tuple that the
answer of the inside host needs.
"""

# First external port of sequential mappings, and the number of such ports.
_COUNTED, _COUNT = 41000, 4000
# Range of values for random external ports: first value, number of values. The kernel swaps the two bytes, so the ports are spread over the whole
# range, and none is 0.
_MAPPED = (0x4000, 0x4000)
# Limit on mappings.
_SIZE = 65535


def text(kind, insides, outside, servers, generation=0):
    """Returns the whole ruleset. `insides`: (interface, subnet) of each; `outside`: own address outside; `generation`: selects other ports where
    ports are sequential."""
    names = ", ".join(f'"{interface}"' for interface, _ in insides)
    subnets = ", ".join(str(subnet) for _, subnet in insides)
    parts = {"inside": f"{{ {names} }}", "subnets": f"{{ {subnets} }}", "external": outside, "servers": servers}
    parts |= {"timeout": kind.timeout_s, "size": _SIZE}
    body = _filter(kind, parts)
    if kind.translates:
        body += _tables(kind, parts, generation)
    return f"flush ruleset\n{body}"


def _filter(kind, parts):
    """Filters forwarded packets; the router itself answers nothing."""
    lines = []
    if not kind.udp:
        lines += ["meta l4proto udp drop"]
    if not kind.tcp:
        lines += ['oifname "eth1" meta l4proto tcp tcp dport != 443 drop']
    lines += ["ct state established,related accept"] if not kind.one_way else []
    lines += [f'iifname {parts["inside"]} oifname "eth1" accept', "ct status dnat accept"]
    if kind.one_way:
        lines += [f"ip saddr {parts['servers']} accept", "meta l4proto { tcp, icmp } accept", "drop"]
    elif kind.filtering != "none":
        lines += ["drop"]
    forward = "\n".join(f"        {line}" for line in lines)
    return f"""
table ip guard {{
    chain forward {{
        type filter hook forward priority filter; policy accept;
{forward}
    }}
    chain input {{
        type filter hook input priority filter; policy accept;
        meta l4proto {{ udp, tcp }} drop
    }}
}}
"""


def _tables(kind, parts, generation):
    if kind.mapping != "endpoint-independent":
        return _symmetric(kind, parts, generation)
    first, many = _MAPPED
    leaves = ['oifname "eth1"'] + ([f"ip saddr {parts['subnets']} ct status dnat oifname {parts['inside']}"] if kind.hairpin else [])
    renew = [f"{leaving} meta l4proto udp update @out {{ ip saddr . udp sport : numgen random mod {many} offset {first} }}" for leaving in leaves]
    translate = [f"{leaving} meta l4proto udp snat to {parts['external']} : ip saddr . udp sport map @out" for leaving in leaves]
    seen = [
        line
        for leaving in leaves
        for line in (
            f"{leaving} meta l4proto udp ct direction original update @back {{ udp sport : ct original ip saddr . ct original proto-src }}",
            f"{leaving} meta l4proto udp ct direction reply update @back {{ udp sport : ct reply ip saddr . ct reply proto-src }}",
            f"{leaving} meta l4proto udp update @sent {{ udp sport . ip daddr }}",
        )
    ]
    enter = {
        "endpoint-independent": ['iifname "eth1" meta l4proto udp dnat to udp dport map @back'],
        "address-dependent": ['iifname "eth1" udp dport . ip saddr @sent dnat to udp dport map @back'],
    }.get(kind.filtering, [])
    if kind.hairpin:
        enter += [f"iifname {parts['inside']} ip daddr {parts['external']} meta l4proto udp dnat to udp dport map @back"]
    return f"""
table ip nat {{
    map out {{ type ipv4_addr . inet_service : inet_service; flags dynamic,timeout; timeout {parts["timeout"]}s; size {parts["size"]}; }}
    map back {{ type inet_service : ipv4_addr . inet_service; flags dynamic,timeout; timeout {parts["timeout"]}s; size {parts["size"]}; }}
    set sent {{ type inet_service . ipv4_addr; flags dynamic,timeout; timeout {parts["timeout"]}s; size {parts["size"]}; }}
    chain renew {{
        type filter hook postrouting priority mangle; policy accept;
{_indent(renew)}
    }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
{_indent(translate)}
        oifname "eth1" masquerade
    }}
    chain seen {{
        type filter hook postrouting priority srcnat + 10; policy accept;
{_indent(seen)}
    }}
    chain enter {{
        type nat hook prerouting priority dstnat; policy accept;
{_indent(enter)}
    }}
}}
"""


def _symmetric(kind, parts, generation):
    # A table, because the counter of the kernel would count in the upper byte of the port.
    counted = ", ".join(f"{number}: {_COUNTED + (number + generation * 500) % _COUNT}" for number in range(_COUNT))
    how = {
        "random": f"snat to {parts['external']}:1024-65535 fully-random",
        "sequential": f"snat to {parts['external']} : numgen inc mod {_COUNT} map {{ {counted} }}",
    }[kind.ports]
    return f"""
table ip nat {{
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "eth1" meta l4proto udp {how}
        oifname "eth1" masquerade
    }}
}}
"""



def masquerade(random):
    """Returns a ruleset that only masquerades, as many guides recommend. An unsolicited datagram from outside becomes a flow of the router."""
    how = "masquerade fully-random" if random else "masquerade"
    return f"""flush ruleset
table ip nat {{
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "eth1" {how}
    }}
}}
"""


# Drops all forwarded packets at the first hook, so that no table records a flow.
CLOSED = """
table ip closed {
    chain forward {
        type filter hook forward priority raw; policy drop;
    }
}
"""


def fault(direction, servers):
    """Returns a table that drops packets "in", "out" or "both" ways, between this network and all hosts but the servers."""
    lines = {"in": [f'iifname "eth1" ip saddr != {servers} drop'], "out": [f'oifname "eth1" ip daddr != {servers} drop']}
    lines["both"] = lines["in"] + lines["out"]
    return f"""
table ip hole {{
    chain forward {{
        type filter hook forward priority filter - 10; policy accept;
{_indent(lines[direction])}
    }}
}}
"""


def _indent(lines):
    return "\n".join(f"        {line}" for line in lines)
