"""`taut-wg` as a process: its start, its end and its environment, as users of wireguard-go expect them."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.wireguard import INTERFACE, WireGuard, pair
from lab.traffic.flow import ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")


@pytest.fixture
def host(lab):
    return lab.host("one", lab.switch("sw"))


def program(host):
    """Returns the program under a name that makes it behave like wireguard-go."""
    path = host.state / "taut-wg"
    if not path.exists():
        path.symlink_to(Path(binary("taut")).resolve())
    return path


def background(host, device, env=None):
    """Starts it without -f; the caller also waits for the end of its output."""
    return host.run(*device._mounted(program(host), INTERFACE), check=False, env=env)


def pids(host):
    """Returns the ids of the `taut-wg` processes of the host."""
    answer = call("ip", "netns", "pids", host.namespace).stdout.split()
    return [int(pid) for pid in answer if b"taut-wg" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]


def test_it_goes_to_the_background_when_it_is_ready(host):
    device = WireGuard(host)
    done = background(host, device)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # No wait is needed: the first process ends only when interface and socket exist.
    assert device.interface()["private"] == "(none)"
    assert host.run("ip", "link", "show", INTERFACE).returncode == 0
    [pid] = pids(host)
    fields = Path(f"/proc/{pid}/stat").read_text().split()
    assert fields[5] == str(pid), "it leads a session of its own"
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    os.kill(pid, signal.SIGHUP)
    assert device.interface()["private"] == "(none)" and pids(host) == [pid], "a terminal that is closed does not end it"
    host.ip(f"link delete {INTERFACE}")
    wait_until(lambda: not pids(host), "it to end with its device")
    assert not (host.state / "wireguard" / f"{INTERFACE}.sock").exists()


def test_it_says_its_version(host):
    done = host.run(program(host), "--version")
    assert re.fullmatch(r"taut-wg v\S+\n", done.stdout) and pids(host) == []


@pytest.mark.parametrize(("level", "prints"), [(None, True), ("error", True), ("verbose", True), ("silent", False)])
def test_a_start_that_fails_says_why_once(host, level, prints):
    device = WireGuard(host)
    host.ip(f"link add {INTERFACE} type bridge")
    done = background(host, device, {"LOG_LEVEL": level} if level else None)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("the name is taken") == prints
    assert pids(host) == []
    assert not (host.state / "wireguard" / f"{INTERFACE}.sock").exists()


def test_a_second_one_leaves_the_first_alone(host):
    device = WireGuard(host)
    assert background(host, device).returncode == 0
    [first] = pids(host)
    done = background(host, device)
    assert done.returncode == 1 and "another WireGuard program answers" in done.stderr
    assert pids(host) == [first] and device.interface()["private"] == "(none)"


def test_the_environment_keeps_it_in_the_foreground(host):
    device = WireGuard(host)
    words = device._mounted(program(host), INTERFACE)
    process = host.start(*words, name="taut-wg", env={"WG_PROCESS_FOREGROUND": "1", "LOG_LEVEL": "verbose"})
    device.process = process
    wait_until(device._answers, "it to answer", details=process.tail)
    assert pids(host) == [process.pid]
    assert "answers `wg`" in process.err.read_text()
    assert process.stop() == 0


def test_the_device_may_move_to_another_namespace(lab):
    one, two = pair(lab)
    assert one.reaches("10.9.0.2")
    # Only the tunnel leads out of this namespace; its UDP socket stays where it was made.
    inside = lab.host("inside")
    one.host.ip(f"link set {INTERFACE} netns {inside.namespace}")
    inside.ip(f"address add 10.9.0.1/24 dev {INTERFACE}", f"link set {INTERFACE} up")
    wait_until(lambda: ping(inside, "10.9.0.2", count=1)["received"] == 1, "the tunnel to go on", details=one.details)
    assert one.process.alive
    assert ping(two.host, "10.9.0.1", count=3)["received"] == 3
    # The file of the socket is visible in all namespaces.
    one.set("listen-port", 4711)
    assert ping(inside, "10.9.0.2", count=3)["received"] == 3
    inside.ip(f"link delete {INTERFACE}")
    assert one.process.wait() == 0


def test_while_it_is_down_it_is_deaf_and_keeps_its_port(lab):
    one, two = pair(lab, keepalive=1)
    assert one.reaches("10.9.0.2") and two.reaches("10.9.0.1")
    one.host.ip(f"link set {INTERFACE} down")
    wait_until(lambda: not sockets(one.host, 51820), "the port to be closed")
    assert one.interface()["port"] == "51820" and one.peers() == [two.public]
    received = two.peer(one.public)["received"]
    assert ping(two.host, "10.9.0.1", count=3)["received"] == 0
    assert two.peer(one.public)["received"] == received, "it keeps nothing alive"
    # Changes made meanwhile apply when it comes up.
    one.set("listen-port", 4711, "fwmark", 42)
    one.host.ip(f"link set {INTERFACE} up", f"address add fd09::1/64 dev {INTERFACE} nodad")
    wait_until(lambda: sockets(one.host, 4711), "the other port to be opened")
    assert one.reaches("10.9.0.2") and two.reaches("fd09::1")
    assert two.peer(one.public)["endpoint"] == f"{one.host.ipv4}:4711"


def sockets(host, port):
    """Returns true if a process listens on this UDP port."""
    return f":{port} " in host.run("ss", "-Hlun").stdout


def test_a_port_that_is_taken_when_it_comes_up_is_waited_for(lab):
    one, two = pair(lab)
    one.host.ip(f"link set {INTERFACE} down")
    wait_until(lambda: not sockets(one.host, 51820), "the port to be closed")
    taken = one.host.start("python3", "-c", TAKE, name="take")
    taken.wait_for_output("ready")
    one.host.ip(f"link set {INTERFACE} up")
    wait_until(lambda: "cannot be used yet" in one.process.err.read_text(), "it to complain")
    assert "another program has it" in one.process.err.read_text()
    taken.close_input()
    assert one.reaches("10.9.0.2")
    assert one.process.err.read_text().count("cannot be used yet") == 1


TAKE = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 51820))
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_mtu_is_known_in_another_namespace_too(lab):
    """A packet is padded, but never beyond the MTU: the length of the message shows the known MTU."""
    one, two = pair(lab)
    inside = lab.host("inside")

    def outer_length(host, inner):
        """Returns the bytes of the data message around a packet of `inner` bytes, sent by `host`."""
        before = two.peer(one.public)["received"]
        # The packet is not answered, so that no acknowledgement is counted.
        host.run("ping", "-c", 1, "-W", 1, "-s", inner - 28, "10.9.0.2", check=False)
        return two.peer(one.public)["received"] - before

    one.host.ip(f"link set {INTERFACE} netns {inside.namespace}")
    inside.ip(f"address add 10.9.0.1/24 dev {INTERFACE}", f"link set {INTERFACE} up")
    wait_until(lambda: ping(inside, "10.9.0.2", count=1)["received"] == 1, "the tunnel to go on", details=one.details)
    assert outer_length(inside, 1299) == 1312 + 32
    inside.ip(f"link set {INTERFACE} mtu 1300")
    wait_until(lambda: outer_length(inside, 1299) == 1300 + 32, "the MTU to be known", details=one.details)
    # The MTU is also known after a rename, and in a third namespace.
    further = lab.host("further")
    inside.ip(f"link set {INTERFACE} down", f"link set {INTERFACE} name other netns {further.namespace}")
    further.ip("address add 10.9.0.1/24 dev other", "link set other up mtu 1290")
    wait_until(lambda: outer_length(further, 1289) == 1290 + 32, "the next MTU to be known", details=one.details)


def test_without_a_key_the_device_may_move_and_go_too(lab, host):
    device = WireGuard(host).start()
    inside = lab.host("inside")
    host.ip(f"link set {INTERFACE} netns {inside.namespace}")
    assert device.interface()["private"] == "(none)"
    inside.ip(f"link delete {INTERFACE}")
    assert device.process.wait() == 0


def test_the_device_may_get_another_name(host):
    device = WireGuard(host).start()
    host.ip(f"link set {INTERFACE} down", f"link set {INTERFACE} name other")
    device.set("listen-port", 4711)
    assert device.process.alive
    host.ip("link delete other")
    assert device.process.wait() == 0


# Opens a TUN device and the socket for `wg`, passes their descriptors, and becomes the program.
LAUNCHER = """
import fcntl, os, socket, struct, sys
flags, own_socket, *words = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"wg0", int(flags, 0)))  # TUNSETIFF
os.set_inheritable(tun, True)
os.environ["WG_TUN_FD"] = str(tun)
if own_socket == "yes":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/var/run/wireguard/wg0.sock")
    listener.listen()
    listener.set_inheritable(True)
    os.environ["WG_UAPI_FD"] = str(listener.fileno())
os.execv(words[0], words)
"""
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x1, 0x1000, 0x4000


@pytest.mark.parametrize("flags", [IFF_TUN | IFF_NO_PI, IFF_TUN | IFF_NO_PI | IFF_VNET_HDR], ids=["bare", "header"])
@pytest.mark.parametrize("own_socket", ["no", "yes"])
def test_device_and_socket_may_be_inherited(lab, flags, own_socket):
    one, two = pair(lab)
    assert one.process.stop() == 0
    # The device's own name is used instead of the name in the arguments.
    words = ("python3", "-c", LAUNCHER, hex(flags), own_socket, program(one.host), "another")
    done = one.host.run(*one._mounted(*words), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    one.setconf(one.config)
    one.host.ip(f"address add 10.9.0.1/24 dev {INTERFACE}", f"link set {INTERFACE} up")
    wait_until(lambda: ping(one.host, "10.9.0.2", count=1)["received"] == 1, "the tunnel to carry")
    assert ping(two.host, "10.9.0.1", count=3)["received"] == 3
    one.host.ip(f"link delete {INTERFACE}")
    wait_until(lambda: not pids(one.host), "it to end with its device")
    assert not (one.host.state / "wireguard" / f"{INTERFACE}.sock").exists()


@pytest.mark.parametrize("variable", ["WG_TUN_FD", "WG_UAPI_FD"])
@pytest.mark.parametrize(("value", "why"), [("99", "Bad file descriptor"), ("x", "invalid digit"), ("0", "inherited descriptor")])
def test_a_descriptor_of_no_use_is_named(host, variable, value, why):
    done = background(host, WireGuard(host), {variable: value})
    assert done.returncode == 1 and why in done.stderr
    assert pids(host) == [] and not (host.state / "wireguard" / f"{INTERFACE}.sock").exists()
