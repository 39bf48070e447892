"""The stock `wg-quick` with `taut-wg` as its userspace implementation."""

import re
import shutil
from pathlib import Path

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.wireguard import INTERFACE, WireGuard, conf
from lab.traffic.flow import ping

pytestmark = [
    pytest.mark.skipif(not shutil.which("wg-quick"), reason="needs wg-quick: apt-get install wireguard-tools"),
    # With WireGuard in the kernel, wg-quick would use it and never start `taut-wg`.
    pytest.mark.skipif(Path("/sys/module/wireguard").exists(), reason="the kernel's WireGuard is loaded"),
]

# The policy routing of wg-quick for 0.0.0.0/0 and ::/0, without its firewall rules.
BY_HAND = [
    "Table = off",
    "FwMark = 51820",
    *(
        f"{when} = ip -{family} {what}"
        for family in (4, 6)
        for when, what in (
            ("PostUp", "route add default dev %i table 51820"),
            ("PostUp", "rule add not fwmark 51820 table 51820"),
            ("PostDown", "rule delete not fwmark 51820 table 51820"),
        )
    ),
]
EVERYTHING = "0.0.0.0/0, ::/0"

# Programs with which wg-quick makes firewall rules, and commands that list them.
FIREWALLS = {
    "nft": (("nft",), [("nft", "list", "ruleset")]),
    "iptables": (
        tuple(f"{name}{verb}" for name in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")),
        [("iptables-save",), ("ip6tables-save",)],
    ),
}


def lacks(firewall):
    """Returns why wg-quick cannot be made to use this one, or None."""
    own = Path(shutil.which("wg-quick") or "/").parent
    missing = [program for program in FIREWALLS[firewall][0] if not shutil.which(program)]
    if missing:
        return f"needs {missing[0]}: apt-get install {'nftables' if firewall == 'nft' else firewall}"
    # wg-quick looks into its own directory first, and prefers nft.
    return "nft stands beside wg-quick" if firewall == "iptables" and (own / "nft").exists() else None


class Quick:
    """A host whose interface wg-quick brings up towards `server`."""

    def __init__(self, lab, extra=(), allowed=EVERYTHING, programs=()):
        # Only the default route leads to the server, and the full tunnel takes it over.
        home, away = lab.switch("home"), lab.switch("away")
        lab.router("router", home, away)
        self.server = WireGuard(lab.host("server", away), inner=["10.9.0.1/24", "fd09::1/64", "192.0.2.1/32", "2001:db8::1/128"])
        self.client = WireGuard(lab.host("client", home))
        host = self.host = self.client.host
        # Programs that wg-quick finds, besides those in its own directory.
        self.programs = host.state / "bin"
        self.programs.mkdir()
        for program in ("ip", "sysctl", *programs):
            (self.programs / program).symlink_to(shutil.which(program))
        (self.programs / "taut-wg").symlink_to(Path(binary("taut")).resolve())
        self.server.config = conf(self.server, {"PublicKey": self.client.public, "AllowedIPs": "10.9.0.2/32, fd09::2/128"})
        self.server.start()
        self.file = host.state / f"{INTERFACE}.conf"
        peer = {"PublicKey": self.server.public, "AllowedIPs": allowed, "Endpoint": f"{self.server.host.ipv4}:51820"}
        text = conf(self.client, peer, port=51821)
        self.file.write_text(text.replace("[Interface]", "\n".join(["[Interface]", "Address = 10.9.0.2/24, fd09::2/64", *extra])))
        self.file.chmod(0o600)

    def run(self, verb):
        env = {"WG_QUICK_USERSPACE_IMPLEMENTATION": "taut-wg", "PATH": f"{self.programs}:/usr/bin:/bin"}
        return self.host.run(*self.client._mounted("wg-quick", verb, self.file), env=env)

    def down(self):
        """Ends the interface, and waits for the end of the program."""
        self.run("down")
        wait_until(lambda: not self.client._socket().exists(), "the socket to go")

    def reaches(self, *far):
        for address in far:
            wait_until(lambda far=address: ping(self.host, far, count=1)["received"] == 1, f"the way to {address}", details=self.server.details)

    def mtu(self):
        return int(re.search(r" mtu (\d+)", self.host.run("ip", "-o", "link", "show", "dev", INTERFACE).stdout)[1])

    def check(self, firewall=None):
        """Brings it up, uses it, and brings it down without leftovers."""
        before = self.host.network_state()
        self.run("up")
        assert self.client.interface()["fwmark"] == "0xca6c"
        if firewall:
            assert "wg-quick" in self.rules(firewall)
        # Distant addresses that only the tunnel reaches; its own packets do not go into it.
        self.reaches("192.0.2.1", "2001:db8::1")
        assert ping(self.host, "192.0.2.1", count=3)["received"] == 3
        assert self.server.peer(self.client.public)["endpoint"] == f"{self.host.ipv4}:51821"
        self.down()
        assert self.host.network_state() == before
        if firewall:
            assert "wg-quick" not in self.rules(firewall)

    def rules(self, firewall):
        return "".join(self.host.run(*words).stdout for words in FIREWALLS[firewall][1])


def test_a_full_tunnel_with_policy_routing(lab):
    Quick(lab, ["MTU = 1400", *BY_HAND]).check()


@pytest.mark.parametrize("firewall", FIREWALLS)
def test_a_full_tunnel(lab, firewall):
    if lacks(firewall):
        pytest.skip(lacks(firewall))
    quick = Quick(lab, programs=FIREWALLS[firewall][0])
    # The check runs twice, because leftovers of the first run would break the second.
    quick.check(firewall)
    quick.check(firewall)


def test_the_mtu_is_what_wg_quick_finds_out(lab):
    quick = Quick(lab, allowed="10.9.0.0/24, fd09::/64")
    quick.host.ip("link set eth0 mtu 1400")
    quick.run("up")
    assert quick.mtu() == 1320
    quick.reaches("10.9.0.1", "fd09::1")
    quick.down()


def test_changes_are_saved(lab):
    """`wg-quick save`, and SaveConfig when it goes down: the file contains the state of the interface, and brings up the same."""
    quick = Quick(lab, ["SaveConfig = true", "MTU = 1400"], allowed="10.9.0.0/24")
    quick.run("up")
    quick.reaches("10.9.0.1")
    quick.client.set("peer", quick.server.public, "persistent-keepalive", 17)
    quick.run("save")
    saved = quick.file.read_text()
    assert "PersistentKeepalive = 17" in saved and "ListenPort = 51821" in saved and "Address = 10.9.0.2/24" in saved and "MTU = 1400" in saved
    # The peer changes its port and gets more prefixes.
    quick.server.set("listen-port", 51900)
    assert ping(quick.server.host, "10.9.0.2", count=3)["received"] == 3
    quick.client.set("peer", quick.server.public, "allowed-ips", "10.9.0.0/24,192.0.2.1/32")
    quick.down()
    saved = quick.file.read_text()
    assert f"Endpoint = {quick.server.host.ipv4}:51900" in saved and "192.0.2.1/32" in saved and "SaveConfig = true" in saved
    quick.run("up")
    quick.reaches("10.9.0.1", "192.0.2.1")
    assert quick.client.peer(quick.server.public)["keepalive"] == "17"
    quick.down()


# Records its input. A real one would change /etc/resolv.conf of the machine, which hosts of the lab share.
RESOLVCONF = """#!/bin/sh
echo "$*" >> "$0.log"
case "$1" in
-a) cat > "$0.$2" ;;
-d) rm "$0.$2" ;;
-l) cat "$0.$2" ;;
esac
"""


def test_name_servers_come_and_go(lab):
    quick = Quick(lab, ["DNS = 10.9.0.1, fd09::1, example.org", "SaveConfig = true"], allowed="10.9.0.0/24")
    program = quick.programs / "resolvconf"
    program.write_text(RESOLVCONF)
    program.chmod(0o755)
    quick.run("up")
    record = quick.programs / f"resolvconf.{INTERFACE}"
    assert record.read_text() == "nameserver 10.9.0.1\nnameserver fd09::1\nsearch example.org\n"
    quick.reaches("10.9.0.1")
    quick.down()
    assert not record.exists()
    log = (quick.programs / "resolvconf.log").read_text()
    assert f"-a {INTERFACE} -m 0 -x" in log and f"-d {INTERFACE} -f" in log
    assert "DNS = 10.9.0.1" in quick.file.read_text()
