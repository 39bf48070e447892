"""nftables text for one NAT router: `eth0` (and `eth2`, … for guests) inside, `eth1` outside.

Linux by itself has one kind of NAT: every flow is a mapping of its own. What the others need is kept in maps beside it:

    out    inside address and port → external port     the mapping of an endpoint-independent NAT
    back   external port → inside address and port     its way back, for those who may come in first
    sent   external port and outside address           whom an address-dependent filter lets in

Packets that go out renew them, at priority mangle before the kernel translates, and right after that. Only flows that the kernel does not know yet
look anything up in them. What nobody may send in is dropped without a word, and before the kernel keeps it: a flow that was kept would hold the very
tuple that the answer of the host inside needs.
"""

# First external port of those that are counted up, and how many there are.
_COUNTED, _COUNT = 41000, 4000
# Values that a random external port is made of: first, how many. The kernel takes the two bytes the other way round, so these are ports from all of
# the range, none of them 0.
_MAPPED = (0x4000, 0x4000)
# Mappings at most.
_SIZE = 65535


def text(kind, insides, outside, servers, generation=0):
    """The whole ruleset. `insides`: (interface, subnet) of each, `outside`: own address there, `generation`: each has other ports where they are counted."""
    names = ", ".join(f'"{interface}"' for interface, _ in insides)
    subnets = ", ".join(str(subnet) for _, subnet in insides)
    parts = {"inside": f"{{ {names} }}", "subnets": f"{{ {subnets} }}", "external": outside, "servers": servers}
    parts |= {"timeout": kind.timeout_s, "size": _SIZE}
    body = _filter(kind, parts)
    if kind.translates:
        body += _tables(kind, parts, generation)
    return f"flush ruleset\n{body}"


def _filter(kind, parts):
    """What is forwarded, and that the box itself answers nobody."""
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
    # A table, because the kernel's own counter would count in the port's upper byte.
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
    """A Linux router that only masquerades, as many a guide sets it up: an unasked datagram from outside becomes a flow of the router."""
    how = "masquerade fully-random" if random else "masquerade"
    return f"""flush ruleset
table ip nat {{
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "eth1" {how}
    }}
}}
"""


# Nothing is forwarded, and no table remembers anything: before all others.
CLOSED = """
table ip closed {
    chain forward {
        type filter hook forward priority raw; policy drop;
    }
}
"""


def fault(direction, servers):
    """A hole that swallows what goes "in", "out" or "both" ways, between this network and everybody but the servers."""
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
