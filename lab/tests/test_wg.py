"""`taut wg`, configured with the stock `wg`."""

import base64
import shutil
import time

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.wireguard import INTERFACE, WireGuard, conf, pair
from lab.traffic.flow import ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")


@pytest.fixture
def alone(lab):
    """One interface without peers."""
    return WireGuard(lab.host("one", lab.switch("sw")), inner=["10.9.0.1/24"]).start()


def key(device):
    return device.wg("pubkey", text=device.wg("genkey")).strip()


def test_set_and_show(alone):
    file = alone.host.state / "key"
    file.write_text(alone.private)
    psk = alone.wg("genpsk").strip()
    (alone.host.state / "psk").write_text(psk)
    peer, other = key(alone), key(alone)
    alone.set("private-key", file, "listen-port", 4711, "fwmark", "0x2a")
    alone.set("peer", peer, "preshared-key", alone.host.state / "psk", "endpoint", "192.0.2.1:5", "allowed-ips", "10.0.0.0/8,::/0")
    shown = alone.interface()
    assert (shown["private"], shown["public"], shown["port"], shown["fwmark"]) == (alone.private, alone.public, "4711", "0x2a")
    seen = alone.peer(peer)
    assert (seen["psk"], seen["endpoint"], seen["allowed"], seen["keepalive"]) == (psk, "192.0.2.1:5", ["10.0.0.0/8", "::/0"], "off")
    # A prefix that another peer gets is removed from the first one.
    alone.set("peer", other, "allowed-ips", "10.0.0.0/8,10.1.0.0/16", "persistent-keepalive", 25)
    assert alone.peer(peer)["allowed"] == ["::/0"]
    assert alone.peer(other)["keepalive"] == "25"
    alone.set("peer", peer, "remove")
    assert alone.peers() == [other]
    alone.set("peer", other, "persistent-keepalive", "off")
    assert alone.peer(other)["keepalive"] == "off"


def test_configuration_files(alone):
    first, second, third = (key(alone) for _ in range(3))
    alone.setconf(conf(alone, {"PublicKey": first, "AllowedIPs": "10.1.0.0/16"}, {"PublicKey": second}, port=4711))
    assert alone.peers() == sorted([first, second])
    shown = alone.wg("showconf", INTERFACE)
    alone.setconf(shown)
    assert alone.wg("showconf", INTERFACE) == shown
    alone.setconf(conf(alone, {"PublicKey": first, "AllowedIPs": "10.2.0.0/16"}, {"PublicKey": third}, port=4711), "syncconf")
    assert alone.peers() == sorted([first, third])
    assert alone.peer(first)["allowed"] == ["10.2.0.0/16"]
    assert alone.interface()["port"] == "4711"


def test_impossible_settings_are_refused(alone):
    alone.set("listen-port", 4711)
    taken = alone.host.start("python3", "-c", TAKE, name="take")
    taken.wait_for_output("ready")
    done = alone.wg("set", INTERFACE, "listen-port", "4712", check=False)
    assert done.returncode != 0 and "Address already in use" in done.stderr
    assert alone.interface()["port"] == "4711"
    done = alone.wg("set", INTERFACE, "peer", "A" * 43 + "=", check=False)
    assert done.returncode != 0 and "Invalid argument" in done.stderr
    assert alone.peers() == []
    taken.close_input()


TAKE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4712))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["signal", "device", "socket"])
def test_it_ends_and_leaves_nothing(alone, end):
    socket = alone.host.state / "wireguard" / f"{INTERFACE}.sock"
    assert socket.stat().st_mode & 0o777 == 0o600
    if end == "signal":
        assert alone.stop() == 0
    elif end == "device":
        alone.host.ip(f"link delete {INTERFACE}")
    else:
        socket.unlink()
    assert alone.process.wait() == 0
    assert not socket.exists()
    assert alone.host.run("ip", "link", "show", INTERFACE, check=False).returncode != 0


@pytest.mark.parametrize("family", [4, 6])
def test_two_talk(lab, family):
    one, two = pair(lab, family=family, psk=True)
    assert ping(one.host, "10.9.0.2", count=5)["received"] == 5
    assert ping(two.host, "fd09::1", count=5)["received"] == 5
    seen = one.peer(two.public)
    address = two.host.ipv4 if family == 4 else f"[{two.host.ipv6}]"
    assert seen["endpoint"] == f"{address}:51820" and seen["handshake"] > 0
    # The counters of both sides agree: one initiation, one response, and data messages with their overhead.
    assert (seen["sent"], seen["received"]) == (two.peer(one.public)["received"], two.peer(one.public)["sent"])
    # A preshared key on one side only: existing sessions continue, no new one is made.
    (one.host.state / "psk").write_text(one.wg("genpsk"))
    one.set("peer", two.public, "preshared-key", one.host.state / "psk")
    assert ping(one.host, "10.9.0.2", count=3)["received"] == 3
    two.restart()
    assert ping(one.host, "10.9.0.2", count=3)["received"] == 0


def test_keepalive_opens_the_way_without_traffic(lab):
    one, two = pair(lab, keepalive=1)
    wait_until(lambda: one.peer(two.public)["handshake"] > 0, "a handshake without traffic", details=one.details)
    before = one.peer(two.public)["received"]
    wait_until(lambda: one.peer(two.public)["received"] > before, "a keepalive", details=one.details)


def test_fault_g2_the_longest_allowed_prefix_decides_both_ways(lab):
    """10.8.0.0/16 belongs to two, 10.8.1.0/24 within it to three."""
    switch = lab.switch("sw")
    devices = [WireGuard(lab.host(name, switch), inner=[inner]) for name, inner in (("one", "10.8.0.1/16"), ("two", "10.8.0.2/16"), ("three", "10.8.1.3/16"))]
    one, two, three = devices
    for device in (two, three):
        device.config = conf(device, {"PublicKey": one.public, "AllowedIPs": "10.8.0.1/32", "Endpoint": f"{one.host.ipv4}:51820"})
    one.config = conf(
        one,
        {"PublicKey": two.public, "AllowedIPs": "10.8.0.0/16", "Endpoint": f"{two.host.ipv4}:51820"},
        {"PublicKey": three.public, "AllowedIPs": "10.8.1.0/24", "Endpoint": f"{three.host.ipv4}:51820"},
    )
    for device in devices:
        device.start()
    assert one.reaches("10.8.0.2") and one.reaches("10.8.1.3")
    # An address of three's longer prefix is not accepted from two.
    two.host.ip(f"address add 10.8.1.9/32 dev {INTERFACE}", f"route add 10.8.0.1/32 dev {INTERFACE} src 10.8.1.9")
    before = echoes(one.host)
    assert ping(two.host, "10.8.0.1", count=3)["received"] == 0
    assert echoes(one.host) == before
    # From its own address it is accepted.
    two.host.ip(f"route replace 10.8.0.1/32 dev {INTERFACE} src 10.8.0.2")
    assert ping(two.host, "10.8.0.1", count=3)["received"] == 3
    assert echoes(one.host) == before + 3


def echoes(host):
    """Returns the IPv4 echo requests that have reached this host's kernel."""
    lines = [line.split() for line in host.run("cat", "/proc/net/snmp").stdout.splitlines() if line.startswith("Icmp:")]
    return int(dict(zip(*lines))["InEchos"])


def test_roaming_follows_the_last_authentic_packet(lab):
    one, two = pair(lab, keepalive=1)
    assert one.reaches("10.9.0.2")
    network = one.host.ipv4.rpartition(".")[0]
    two.host.ip("address flush dev eth0", f"address add {network}.77/24 dev eth0")
    wait_until(lambda: one.peer(two.public)["endpoint"] == f"{network}.77:51820", "one to follow two", details=one.details)
    assert one.reaches("10.9.0.2")
    two.set("listen-port", 4711)
    wait_until(lambda: one.peer(two.public)["endpoint"] == f"{network}.77:4711", "one to follow two's port", details=one.details)
    assert one.reaches("10.9.0.2")


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_either_side_restarts(lab, kill):
    one, two = pair(lab)
    assert one.reaches("10.9.0.2")
    two.restart(kill)
    assert two.reaches("10.9.0.1")
    one.restart(kill)
    assert one.reaches("10.9.0.2") and two.reaches("fd09::1")


def test_another_private_key_is_another_peer(lab):
    one, two = pair(lab)
    assert one.reaches("10.9.0.2")
    two.setconf(two.config.replace(two.private, two.wg("genkey").strip()))
    assert ping(one.host, "10.9.0.2", count=3)["received"] == 0
    two.setconf(two.config.replace(two.interface()["private"], two.private))
    assert two.reaches("10.9.0.1")


def link_local(host):
    """Returns the host's link-local address on eth0."""
    for line in host.run("ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "link").stdout.splitlines():
        return line.split()[3].partition("/")[0]
    raise AssertionError(f"{host.name} has no link-local address")


def test_endpoints_on_the_link_name_their_interface(lab):
    one, two = pair(lab, family=6, passive=True)
    # Of all interfaces with a link-local address, only this one leads to the peer.
    one.host.ip("link add other type veth peer name far", "link set other up", "link set far up")
    far = f"[{link_local(two.host)}%eth0]:51820"
    one.set("peer", two.public, "endpoint", far)
    assert one.peer(two.public)["endpoint"] == far
    assert one.reaches("10.9.0.2")
    # The same for learned endpoints, and in the other direction.
    assert two.peer(one.public)["endpoint"] == f"[{link_local(one.host)}%eth0]:51820"
    assert ping(two.host, "10.9.0.1", count=3)["received"] == 3
    shown = one.wg("showconf", INTERFACE)
    assert f"Endpoint = {far}" in shown
    one.setconf(shown)
    assert one.reaches("10.9.0.2")
    answer = one.ask(f"set=1\npublic_key={hexadecimal(two.public)}\nendpoint=[fe80::1%nowhere]:1\n\n")
    assert answer == "errno=-19\n\n" and one.peer(two.public)["endpoint"] == far


def hexadecimal(key):
    return base64.b64decode(key).hex()


def without_figures(answer):
    return [line for line in answer.splitlines() if not line.startswith("tx_bytes=")]


def test_the_protocol_itself(alone):
    private, peer, other = hexadecimal(alone.private), hexadecimal(key(alone)), hexadecimal(key(alone))
    assert alone.ask("get=1\n\n").startswith("listen_port=")
    lines = f"private_key={private}\nlisten_port=4711\nfwmark=7\nreplace_peers=true\npublic_key={peer}\nprotocol_version=1\nendpoint=192.0.2.1:5\n"
    assert alone.ask(f"set=1\n{lines}persistent_keepalive_interval=9\nallowed_ip=10.0.0.0/8\n\n") == "errno=0\n\n"
    before = alone.ask("get=1\n\n")
    assert before.splitlines() == [
        f"private_key={private}",
        "listen_port=4711",
        "fwmark=7",
        f"public_key={peer}",
        "protocol_version=1",
        "endpoint=192.0.2.1:5",
        "last_handshake_time_sec=0",
        "last_handshake_time_nsec=0",
        *[line for line in before.splitlines() if line.startswith("tx_bytes=")],
        "rx_bytes=0",
        "persistent_keepalive_interval=9",
        "allowed_ip=10.0.0.0/8",
        "errno=0",
        "",
    ]
    # A refused request has no effect, whatever preceded the line in question.
    well = f"listen_port=4712\nfwmark=8\nreplace_peers=true\npublic_key={other}\nallowed_ip=10.0.0.0/8\n"
    for wrong, errno in (("what=1", -22), ("no key", -71), ("protocol_version=2", -22), ("endpoint=here:1", -22), (f"public_key={'0' * 64}", -22)):
        assert alone.ask(f"set=1\n{well}{wrong}\n\n") == f"errno={errno}\n\n", wrong
        # Handshakes continue meanwhile.
        assert without_figures(alone.ask("get=1\n\n")) == without_figures(before)
    assert alone.ask(f"set=1\npublic_key={other}\nupdate_only=true\nallowed_ip=10.0.0.0/8\n\n") == "errno=0\n\n"
    assert alone.peers() == [base64.b64encode(bytes.fromhex(peer)).decode()]
    # Several requests over one connection, each with its answer.
    assert alone.ask("set=1\nfwmark=0\n\nget=2\n\nset=1\n\n") == "errno=0\n\nerrno=-22\n\nerrno=0\n\n"


def test_the_mark_is_on_every_socket(lab):
    one, two = pair(lab, passive=True)
    one.host.ip("rule add fwmark 0x2a blackhole")
    assert one.reaches("10.9.0.2")
    one.set("fwmark", "0x2a")
    assert ping(one.host, "10.9.0.2", count=3)["received"] == 0
    # Another port means another socket.
    one.set("listen-port", 4711)
    assert ping(one.host, "10.9.0.2", count=3)["received"] == 0
    one.set("fwmark", "off")
    assert one.reaches("10.9.0.2")
    assert one.interface()["fwmark"] == "off" and two.peer(one.public)["endpoint"].endswith(":4711")


def test_another_port_keeps_the_sessions(lab):
    one, two = pair(lab)
    assert one.reaches("10.9.0.2")
    made = one.peer(two.public)["handshake"]
    wait_until(lambda: time.time() > made + 2, "another second than the handshake's")
    for port in (4711, 51820, 4712, 4711):
        one.set("listen-port", port)
        assert ping(one.host, "10.9.0.2", count=3)["received"] == 3
        assert ping(two.host, "10.9.0.1", count=3)["received"] == 3
        assert two.peer(one.public)["endpoint"] == f"{one.host.ipv4}:{port}"
    assert one.peer(two.public)["handshake"] == made
    assert "4711" in (listening := one.host.run("ss", "-Hlun").stdout) and "51820" not in listening
