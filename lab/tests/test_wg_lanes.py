"""`taut wg --lanes N`: peers are divided among lanes. All lanes use one port, so peers and firewalls notice nothing."""

import shutil
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.wireguard import WireGuard, conf
from lab.traffic.flow import Transfer, ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")

PORT = 51820

# What a strict firewall lets in, at the hub and at its peers: datagrams from and to the one port that everybody knows.
ONE_PORT = f"""table inet strict {{
    chain input {{
        type filter hook input priority 0
        iifname != "wg0" udp dport != {PORT} drop
        iifname != "wg0" udp sport != {PORT} drop
    }}
}}"""

RATE = 20_000_000


def network(lab, lanes=2, peers=2, rekey_after=None):
    """Returns a hub and its peers, all behind strict firewalls. The peers know the hub's endpoint; the hub knows none."""
    switch = lab.switch("sw")
    env = {"TAUT_TEST_REKEY_AFTER_S": str(rekey_after)} if rekey_after else None
    hub = WireGuard(lab.host("hub", switch), inner=["10.9.0.1/24"], env=env, flags=["--lanes", str(lanes)])
    numbers = range(2, 2 + peers)
    others = [WireGuard(lab.host(f"peer{number}", switch), inner=[f"10.9.0.{number}/24"], env=env) for number in numbers]
    known = [{"PublicKey": other.public, "AllowedIPs": f"10.9.0.{number}/32"} for number, other in zip(numbers, others)]
    hub.config = conf(hub, *known)
    for other in others:
        other.config = conf(other, {"PublicKey": hub.public, "AllowedIPs": "10.9.0.1/32", "Endpoint": f"{hub.host.ipv4}:{PORT}"})
    for device in [hub, *others]:
        device.host.run("nft", "-f", "-", text=ONE_PORT)
        device.start()
    return hub, others


def lane_ticks(device):
    """Returns the processor time of each lane's thread, in clock ticks."""
    ticks = {}
    for task in Path(f"/proc/{device.process.pid}/task").iterdir():
        name, fields = (task / "comm").read_text().strip(), (task / "stat").read_text().rpartition(")")[2].split()
        if name.startswith("taut-lane-"):
            ticks[name] = int(fields[11]) + int(fields[12])
    return ticks


def test_two_busy_peers_use_two_lanes_and_one_port(lab):
    hub, others = network(lab, rekey_after=3)
    for other in others:
        assert ping(other.host, "10.9.0.1", first=True)["received"]
    before = lane_ticks(hub)
    assert len(before) == 2
    transfers = []
    for number, other in enumerate(others, 2):
        transfers.append(Transfer(hub.host, other.host, f"10.9.0.{number}", rate=RATE))
        transfers.append(Transfer(other.host, hub.host, "10.9.0.1", rate=RATE))
    first = [hub.peer(other.public)["handshake"] for other in others]
    # Sessions are renewed meanwhile.
    wait_until(lambda: all(hub.peer(other.public)["handshake"] != was for other, was in zip(others, first)), "new sessions with both peers")
    for transfer in transfers:
        transfer.flows_on(RATE)
    assert all(transfer.finish()["equal"] for transfer in transfers)
    spent = {name: ticks - before[name] for name, ticks in lane_ticks(hub).items()}
    assert all(ticks > 5 for ticks in spent.values()), spent
    assert [other.peer(hub.public)["endpoint"] for other in others] == [f"{hub.host.ipv4}:{PORT}"] * 2


def test_another_port_and_a_port_that_is_taken(lab):
    hub, (first, second) = network(lab)
    for device in (hub, first, second):
        device.host.run("nft", "delete", "table", "inet", "strict")
    assert ping(first.host, "10.9.0.1", first=True)["received"] and ping(second.host, "10.9.0.1", first=True)["received"]
    hub.set("listen-port", 4711)
    # The hub is heard from its new port, and both peers follow.
    for number, other in ((2, first), (3, second)):
        assert ping(hub.host, f"10.9.0.{number}", first=True)["received"]
        assert other.peer(hub.public)["endpoint"] == f"{hub.host.ipv4}:4711"
        assert ping(other.host, "10.9.0.1", first=True)["received"]
    taken = hub.host.start("python3", "-c", "import socket, time; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4712)); print('ready', flush=True); time.sleep(60)")
    taken.wait_for_output("ready")
    refused = hub.wg("set", "wg0", "listen-port", "4712", check=False)
    assert refused.returncode and "in use" in refused.stderr
    assert hub.interface()["port"] == "4711" and ping(first.host, "10.9.0.1")["received"]


def test_more_lanes_than_peers_and_the_other_way_round(lab):
    hub, others = network(lab, lanes=3, peers=4)
    for number, other in enumerate(others, 2):
        assert ping(other.host, "10.9.0.1", first=True)["received"]
        assert ping(hub.host, f"10.9.0.{number}")["received"]
    # A peer that is removed and added again has another lane.
    gone = others[0]
    hub.set("peer", gone.public, "remove")
    hub.set("peer", gone.public, "allowed-ips", "10.9.0.2/32")
    gone.restart()
    assert ping(gone.host, "10.9.0.1", first=True)["received"]
