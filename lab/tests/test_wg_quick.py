"""The stock `wg-quick` with `taut-wg` as its userspace implementation."""

import shutil
from pathlib import Path

import pytest

from lab.flow import ping
from lab.taut import binary
from lab.wait import wait_until
from lab.wireguard import INTERFACE, WireGuard, conf

pytestmark = [
    pytest.mark.skipif(not shutil.which("wg-quick"), reason="needs wg-quick: apt-get install wireguard-tools"),
    # It would take the kernel's own and never ask for us.
    pytest.mark.skipif(Path("/sys/module/wireguard").exists(), reason="the kernel's WireGuard is loaded"),
]

# As wg-quick does it for 0.0.0.0/0 and ::/0, less its firewall rules.
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


class Quick:
    """A host whose interface wg-quick brings up towards `server`, for everything."""

    def __init__(self, lab, extra):
        switch = lab.switch("sw")
        self.server = WireGuard(lab.host("server", switch), inner=["10.9.0.1/24", "fd09::1/64", "192.0.2.1/32", "2001:db8::1/128"])
        self.client = WireGuard(lab.host("client", switch))
        host = self.host = self.client.host
        self.program = host.state / "taut-wg"
        self.program.symlink_to(Path(binary("taut")).resolve())
        self.server.config = conf(self.server, {"PublicKey": self.client.public, "AllowedIPs": "10.9.0.2/32, fd09::2/128"})
        self.server.start()
        self.file = host.state / f"{INTERFACE}.conf"
        peer = {"PublicKey": self.server.public, "AllowedIPs": "0.0.0.0/0, ::/0", "Endpoint": f"{self.server.host.ipv4}:51820"}
        text = conf(self.client, peer, port=51821)
        self.file.write_text(text.replace("[Interface]", "\n".join(["[Interface]", "Address = 10.9.0.2/24, fd09::2/64", "MTU = 1400", *extra])))
        self.file.chmod(0o600)

    def run(self, verb):
        env = {"WG_QUICK_USERSPACE_IMPLEMENTATION": self.program}
        return self.host.run(*self.client._mounted("wg-quick", verb, self.file), env=env)

    def check(self):
        """Up, used, and down without a trace."""
        before = self.host.network_state()
        self.run("up")
        assert self.client.interface()["fwmark"] == "0xca6c"
        # Far away, and only the tunnel leads there; its own packets do not go into it.
        for far in ("192.0.2.1", "2001:db8::1"):
            wait_until(lambda far=far: ping(self.host, far, count=1)["received"] == 1, f"the way to {far}", story=self.server.story)
        assert ping(self.host, "192.0.2.1", count=3)["received"] == 3
        assert self.server.peer(self.client.public)["endpoint"] == f"{self.host.ipv4}:51821"
        self.run("down")
        socket = self.host.state / "wireguard" / f"{INTERFACE}.sock"
        wait_until(lambda: not socket.exists(), "the socket to go")
        assert self.host.network_state() == before


def test_a_full_tunnel_with_policy_routing(lab):
    Quick(lab, BY_HAND).check()


@pytest.mark.skipif(not (shutil.which("nft") or shutil.which("iptables-restore")), reason="wg-quick needs nft or iptables for a full tunnel")
def test_a_full_tunnel(lab):
    quick = Quick(lab, ["FwMark = 51820"])
    quick.check()
    if shutil.which("nft"):
        assert quick.host.run("nft", "list", "ruleset").stdout == ""
