"""A home router that maps ports on request: the real miniupnpd, or a gateway that gives false answers.

    home = HomeRouter(lab)                  a network inside, a router that is its gateway, a network outside
    host = lab.host("one", home.inside)
    upnpd = home.serve()                    miniupnpd: PCP, NAT-PMP, UPnP-IGD
    faulty = home.serve_faulty({"pcp": {"outside": "127.0.0.1"}})

The router translates addresses and admits only replies (port-restricted: address and port dependent filtering in RFC 4787). The outside has public
addresses, because miniupnpd maps no ports if its outer address is private.
"""

import ipaddress
import json
import sys
from pathlib import Path

from ..hosts.net import Switch
from ..hosts.wait import wait_until

# A public network. No packet leaves the namespaces of the lab, so no real host is contacted.
OUTSIDE = ipaddress.ip_network("5.5.5.0/24")
# Chains in which miniupnpd puts its mappings: passed to it explicitly, so that both sides use the same names.
_CHAINS = ("miniupnpd", "prerouting_miniupnpd", "postrouting_miniupnpd")
_ECHO = (sys.executable, "-I", str(Path(__file__).parent.with_name("traffic") / "generator.py"), "echo")
_FAULTY_GATEWAY = (sys.executable, "-I", str(Path(__file__).with_name("faulty_gateway.py")))
_CONFIGURATION = """\
ext_ifname=eth1
listening_ip=eth0
enable_natpmp=yes
enable_upnp=yes
secure_mode=yes
force_igd_desc_v1={version1}
upnp_table_name=filter
upnp_nat_table_name=filter
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
uuid=7a0b5c1e-0000-4000-8000-000000000001
allow 1024-65535 0.0.0.0/0 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
"""
_RULES = """\
table inet filter {
    chain miniupnpd { }
    chain prerouting_miniupnpd { }
    chain postrouting_miniupnpd { }
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname eth0 accept
        jump miniupnpd
    }
    chain input {
        type filter hook input priority 0; policy accept;
        iifname eth0 ip saddr != OWN udp dport { 1900, 5350, 5351 } counter
    }
    chain prerouting {
        type nat hook prerouting priority -100;
        jump prerouting_miniupnpd
    }
    chain postrouting {
        type nat hook postrouting priority 100;
        jump postrouting_miniupnpd
        oifname eth1 masquerade
    }
}
"""


class HomeRouter:
    """A router between its own network (`inside`, eth0) and the Internet (`outside`, eth1)."""

    def __init__(self, lab, name="gate", outside=None):
        self.inside = lab.switch(f"{name}-in", ipv6=False)
        self.outside = outside or Switch(lab, f"{name}-out", [OUTSIDE])
        self.router = lab.router(name, self.inside, self.outside)
        # The outside network stands for the whole Internet: its hosts have no route to addresses inside.
        self.outside.gateway = []
        self.router.run("nft", "-f", "-", text=_RULES.replace("OWN", self.address))

    @property
    def address(self):
        """The router's address inside."""
        return str(self.router.addresses[0])

    @property
    def outer(self):
        """The router's address outside."""
        return str(self.router.addresses[1])

    def serve(self, version1=False, without=()):
        """Starts miniupnpd; with `version1` as an IGD of version 1. Requests of the protocols in `without` ("pcp", "natpmp") are dropped."""
        drops = {"pcp": "udp dport 5351 @th,64,8 2 drop", "natpmp": "udp dport 5351 @th,64,8 0 drop"}
        for word in without:
            self.router.run("nft", "add", "rule", "inet", "filter", "input", *drops[word].split())
        configuration = self.router.state / "miniupnpd.conf"
        configuration.write_text(_CONFIGURATION.format(version1="yes" if version1 else "no"))
        # `-d` keeps it in the foreground.
        pid = self.router.state / "miniupnpd.pid"
        process = self.router.start("miniupnpd", "-d", "-f", configuration, "-P", pid, name="miniupnpd")
        # It opens its two ports one after the other.
        for port in (5351, 1900):
            wait_until(lambda port=port: self._listens(port), f"miniupnpd to listen on {port}", details=process.tail)
        return process

    def _listens(self, port):
        return self.router.run("ss", "-Hlun", f"sport = :{port}").stdout

    def mappings(self):
        """Returns the rules that admit packets from outside."""
        text = self.router.run("nft", "list", "chain", "inet", "filter", _CHAINS[1]).stdout
        return [line.strip() for line in text.splitlines() if "dnat" in line]

    def asked(self):
        """Returns the number of mapping requests that the kernel counted; announcements of the router itself are not counted."""
        text = self.router.run("nft", "-j", "list", "chain", "inet", "filter", "input").stdout
        rules = [item["rule"]["expr"] for item in json.loads(text)["nftables"] if "rule" in item]
        return next(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)

    def serve_faulty(self, how, host=None):
        """Starts a gateway with the false answers in `how` (see faulty_gateway.py), in the router or in another host."""
        process = (host or self.router).start(*_FAULTY_GATEWAY, self.outer, json.dumps(how), name="liar")
        process.wait_for_output("ready")
        return process

    def reached(self, host, port, outside, by):
        """Returns true if a datagram from `by` to `outside` reaches `port` of `host` and is returned."""
        address, _, outer = outside.rpartition(":")
        echo = host.start(*_ECHO, host.ipv4, port, name=f"echo{port}")
        echo.wait_for_output("ready")
        answer = by.run(sys.executable, "-I", "-c", _ASK, address, outer).stdout.strip()
        echo.stop()
        return answer == "hello"


_ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.settimeout(1)
    for _ in range(5):
        asker.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
        try:
            print(asker.recv(99).decode())
            break
        except TimeoutError:
            pass
"""
