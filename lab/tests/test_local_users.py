"""A local user without rights, and files and sockets that this user creates in place of those of the daemon and of `taut wg` (faults P4, P7); a lost identity
(K6)."""

import base64
import functools
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes.taut import Node, answering
from lab.nodes.wireguard import INTERFACE, SOCKETS, WireGuard
from lab.traffic.flow import ping

NOBODY = 65534
UNPRIVILEGED = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture
def shared():
    """A directory where every user may write, like /tmp. Directories of the lab are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="tautlab-shared-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@functools.cache
def unprivileged_python():
    """Returns a Python that a user without rights may run. The Python of the tests may be in root's home directory."""
    for python in (sys.executable, "/usr/bin/python3", "python3"):
        try:
            if subprocess.run([*UNPRIVILEGED, python, "-c", ""], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("no Python that users without rights may run: apt-get install python3")


def as_unprivileged(node, *words):
    """Runs a command of the CLI as a user without rights."""
    return node.host.run(*UNPRIVILEGED, binary("taut"), *words, "--socket", node.socket, check=False)


def secrets(node):
    """Returns the private keys of the node in every notation."""
    identity = json.loads((node.state / "identity.json").read_bytes().partition(b"\n")[2])
    keys = [base64.b64decode(identity[name]) for name in ("machine_key", "node_key")]
    return [form for key in keys for form in (key.hex(), base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode().rstrip("="))]


def test_fault_p4_a_user_without_rights_may_look_and_change_nothing(mesh, shared, monkeypatch):
    monkeypatch.setattr(Node, "socket", property(lambda node: shared / f"{node.name}.sock"))
    net = mesh(nodes=2)
    one = net.nodes[0]
    before = (one.state / "identity.json").read_bytes()
    seen = []
    for verb in ("status", "hosts", "ip"):
        done = as_unprivileged(one, verb)
        assert done.returncode == 0, done
        seen.append(done.stdout)
    seen.append(as_unprivileged(one, "status", "--json").stdout)
    # The search works: it finds the public key, which is not secret.
    assert one.status()["self"]["node_key"] in seen[-1]
    assert not [form for form in secrets(one) for text in seen if form in text]
    report = shared / "report.tar"
    reading = (("log",), ("log", "-f"), ("bugreport", "--output", report))
    for words in (("down",), ("up",), ("up", "--join", net.coordinator.join_token), ("log", "--record", "debug"), *reading):
        done = as_unprivileged(one, *words)
        assert done.returncode == 1 and "only root and the daemon's own user" in done.stderr, done
    assert not report.exists()
    assert one.status()["state"] == "running" and one.process.alive
    assert (one.state / "identity.json").read_bytes() == before
    for path in (one.state, one.state / "identity.json"):
        assert one.host.run(*UNPRIVILEGED, "cat" if path.is_file() else "ls", path, check=False).returncode != 0


CROWD = """
import socket, sys
held = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    held.append(one)
print("ready", flush=True)
sys.stdin.read()
"""

GREEDY = """
import select, socket, sys
open_ones, reported = [], False
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        while len(open_ones) < 40:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            one.connect(sys.argv[1])
            open_ones.append(one)
    except BlockingIOError:
        pass
    for one in list(open_ones):
        try:
            one.send(b'{"command":"why","peer":"node2"}\\n{"command":"status"}\\n' * 50 + b"{")
        except BlockingIOError:
            pass
        except OSError:
            open_ones.remove(one)
    if not reported:
        print("ready", flush=True)
        reported = True
"""


def state_for_root(node):
    """Returns the state that `taut status` prints for root, whose commands use a socket of their own; `Node.status` asks at the public one."""
    return json.loads(node.taut("status", "--json", check=False).stdout)["state"]


@pytest.mark.parametrize("manner", ["idle", "greedy"])
def test_fault_p7_a_local_user_cannot_block_roots_status_and_down(mesh, shared, monkeypatch, manner):
    monkeypatch.setattr(Node, "socket", property(lambda node: shared / f"{node.name}.sock"))
    one, two = mesh(nodes=2).nodes
    words = (CROWD, one.socket, 100) if manner == "idle" else (GREEDY, one.socket)
    crowds = [one.host.start(*UNPRIVILEGED, unprivileged_python(), "-c", *words, name=f"crowd{n}") for n in range(2)]
    for crowd in crowds:
        crowd.wait_for_output("ready")
    assert [state_for_root(one) for _ in range(3)] == ["running"] * 3
    # Another user without rights is a separate party.
    user = ("setpriv", f"--reuid={NOBODY - 1}", f"--regid={NOBODY}", "--clear-groups")
    other = one.host.run(*user, binary("taut"), "status", "--socket", one.socket)
    assert "node1" in other.stdout
    assert ping(one.host, two.ipv4, count=3)["received"] == 3
    one.taut("down")
    assert state_for_root(one) == "stopped"
    assert [crowd.alive for crowd in crowds] == [True, True]


CHURN_S = 40
CHURN = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
print("ready", flush=True)
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX) as one:
        one.setblocking(False)
        try:
            one.connect(sys.argv[1])
        except BlockingIOError:
            pass
"""


def test_fault_p7_connections_without_pause_do_not_delay_root(mesh, shared, monkeypatch):
    """Other users keep the queue of the public socket full. Root does not wait in that queue, and gets many answers meanwhile."""
    monkeypatch.setattr(Node, "socket", property(lambda node: shared / f"{node.name}.sock"))
    one, _ = mesh(nodes=2).nodes
    crowds = [one.host.start(*UNPRIVILEGED, unprivileged_python(), "-c", CHURN, one.socket, CHURN_S, name=f"crowd{n}") for n in range(2)]
    for crowd in crowds:
        crowd.wait_for_output("ready")
    time.sleep(0.5)
    assert [state_for_root(one) for _ in range(25)] == ["running"] * 25
    one.taut("down")
    assert state_for_root(one) == "stopped"
    assert [crowd.alive for crowd in crowds] == [True, True]
    denied = one.host.run(*UNPRIVILEGED, unprivileged_python(), "-c", CONNECT, f"{one.socket}.root", check=False)
    assert "PermissionError" in denied.stderr, denied


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("program", ["daemon", "wg"])
def test_fault_p6_a_socket_without_descriptors_pauses_and_goes_on(lab, layout, program):
    """Requests that wait at the socket meanwhile are answered afterwards."""
    if program == "daemon":
        node = layout(nodes=1).nodes[0].start()
        # The socket accepts connections before the daemon has all its descriptors; the first answer comes after that.
        node.status()
        pid, path, question = node.process.pid, node.socket, b'{"command":"status"}\n'
    else:
        device = WireGuard(lab.host("one", lab.switch("sw"))).start()
        pid, path, question = device.process.pid, device.host.state / "wireguard" / f"{INTERFACE}.sock", b"get=1\n\n"
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = next(number for number in range(10_000) if number not in taken)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(path))
        client.sendall(question)
        used, begin = processor_seconds(pid), time.monotonic()
        time.sleep(1.5)
        share = (processor_seconds(pid) - used) / (time.monotonic() - begin)
        assert share < 0.1, f"{share:.0%} of a core for a connection that cannot be accepted"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert client.recv(4096)


LISTEN = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["taut.sock", "taut.sock.root"])
@pytest.mark.parametrize("thing", ["file", "link", "dangling", "live", "dead"])
def test_fault_p4_a_foreign_file_in_place_of_the_socket(layout, shared, thing, name):
    """The daemon does not follow, overwrite or change the permissions of a file of the other user."""
    node = layout(nodes=1).nodes[0]
    precious, socket_, place = shared / "precious", shared / "taut.sock", shared / name
    precious.write_text("precious")
    precious.chmod(0o600)
    if thing in ("live", "dead"):
        process = node.host.start(*UNPRIVILEGED, unprivileged_python(), "-c", LISTEN, place, name="stranger")
        process.wait_for_output("ready")
        if thing == "dead":
            process.kill()
    elif thing == "file":
        place.write_text("somebody's")
        os.chown(place, NOBODY, NOBODY)
    else:
        place.symlink_to(precious if thing == "link" else shared / "nothing")
        os.lchown(place, NOBODY, NOBODY)
    if thing == "dead":
        daemon = node.host.start(binary("taut"), "daemon", "--state", node.state, "--socket", socket_, name="daemon")
        wait_until(lambda: answering(place), "the daemon to have replaced the leftover", details=daemon.tail)
        assert place.lstat().st_uid == 0
    else:
        done = node.host.run(binary("taut"), "daemon", "--state", node.state, "--socket", socket_, check=False)
        assert done.returncode == 1 and str(place) in done.stderr, done
        assert place.lstat().st_uid == NOBODY
    assert precious.read_text() == "precious" and precious.stat().st_mode & 0o777 == 0o600
    assert not (shared / "nothing").exists()


@pytest.mark.parametrize("thing", ["link", "dangling", "file"])
def test_fault_p4_the_socket_of_taut_wg_is_its_owners(lab, thing):
    device = WireGuard(lab.host("one", lab.switch("sw")))
    folder = device.host.state / "wireguard"
    folder.mkdir(exist_ok=True)
    precious = device.host.state / "precious"
    precious.write_text("precious")
    precious.chmod(0o644)
    for name in (f"{INTERFACE}.sock", f"{INTERFACE}.new"):
        if thing == "file":
            (folder / name).write_text("leftover")
        else:
            (folder / name).symlink_to(precious if thing == "link" else folder / "nothing")
    device.start()
    found = (folder / f"{INTERFACE}.sock").lstat()
    assert found.st_mode & 0o170777 == 0o140600 and found.st_uid == 0
    assert precious.read_text() == "precious" and precious.stat().st_mode & 0o777 == 0o644
    assert not (folder / "nothing").exists()
    # Root is admitted with the same request on the same socket.
    for user, code in (((), 0), (UNPRIVILEGED, 1)):
        words = device._mounted(*user, unprivileged_python(), "-c", CONNECT, SOCKETS / f"{INTERFACE}.sock")
        tried = device.host.run(*words, check=False)
        assert tried.returncode == code and ("PermissionError" in tried.stderr) == bool(code), tried


CONNECT = """
import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def test_fault_k6_a_lost_identity_is_reported_and_the_node_joins_again(mesh):
    """The page about state files describes the recovery from a lost identity file."""
    net = mesh(nodes=2)
    one, two = net.nodes
    key = one.status()["self"]["node_key"]
    one.stop()
    for name in ("identity.json", "identity.json.prev"):
        (one.state / name).unlink(missing_ok=True)
    done = one.host.run(binary("taut"), "daemon", "--state", one.state, "--socket", one.socket, check=False)
    assert done.returncode == 1 and "from a backup, or remove it to join as a new node" in done.stderr, done
    assert not (one.state / "identity.json").exists(), "no new identity without being asked"
    shutil.rmtree(one.state)
    one.start()
    assert one.up(check=False).returncode == 1, "a node without an identity needs a token"
    one.up(net.coordinator.join_token)
    again = one.wait_for(lambda s: s["state"] == "running", "to be a member again")["self"]
    assert again["node_key"] != key
    listed = json.loads(net.coordinator.cli("nodes", "list", "--json").stdout)["nodes"]
    former = [node for node in listed if node["name"] == "node1"]
    assert len(listed) == 3 and len(former) == 1 and again["name"] != "node1", listed
    assert not former[0]["online"], former
    net.coordinator.cli("nodes", "remove", "node1")
    two.wait_for_peers(again["name"])
    two.ping_until_direct(again["name"])
