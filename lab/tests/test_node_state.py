"""The state directory with the real daemon: two daemons at once, damage, a full disk, repeated crashes, secrets."""

import base64
import contextlib
import hashlib
import json
import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.taut import answering
from lab.traffic.flow import ping

# Crashes by day and at night.
CRASHES = [20, 100]


def start_with(node, commands):
    """Starts the daemon after shell `commands` in its own mount namespace (`ip netns exec` makes one)."""
    flags = ("daemon", "--state", node.state, "--socket", node.socket)
    node.process = node.host.start("sh", "-ec", f'{commands}\nexec "$@"', "sh", binary("taut"), *flags, name="daemon")
    wait_until(lambda: answering(node.socket), "the daemon to answer on its socket", details=node.process.tail)


def inside(node):
    """Returns the state directory as the daemon sees it, mounts included."""
    return Path(f"/proc/{node.process.pid}/root{node.state}")


def daemon_fails(node, *flags):
    """Runs a daemon that must end with exit status 1; returns its output."""
    done = node.host.run(binary("taut"), "daemon", *flags, check=False)
    assert done.returncode == 1, done
    return done.stderr


def test_fault_k4_a_second_daemon_on_one_state_or_one_socket_refuses(mesh):
    one = mesh(nodes=1).nodes[0]
    other = one.host.state / "other"
    message = daemon_fails(one, "--state", one.state, "--socket", other)
    assert "another taut daemon uses the state directory" in message and f"process {one.process.pid}" in message
    assert not other.exists()
    message = daemon_fails(one, "--state", other, "--socket", one.socket)
    assert "another taut daemon answers on" in message
    assert one.status()["state"] == "running"


@pytest.mark.parametrize("damage", ["garbage", "empty", "pipe"])
def test_fault_k2_a_damaged_identity_is_an_error_and_never_a_new_one(mesh, damage):
    one = mesh(nodes=1).nodes[0]
    key = one.status()["self"]["node_key"]
    one.stop()
    live, previous = one.state / "identity.json", one.state / "identity.json.prev"
    whole = live.read_bytes()
    for path in (live, previous):
        path.unlink(missing_ok=True)
        if damage == "pipe":
            os.mkfifo(path, 0o600)
        else:
            path.write_bytes(b"garbage" if damage == "garbage" else b"")
    message = daemon_fails(one, "--state", one.state, "--socket", one.socket)
    assert "the identity of this node is damaged" in message and "restore" in message
    previous.unlink()
    previous.write_bytes(whole)
    one.start().up()
    assert one.status()["self"]["node_key"] == key


def test_fault_k2_k7_a_damaged_map_is_fetched_again(mesh):
    net = mesh(nodes=2)
    one = net.nodes[0]
    one.stop()
    for name in ("map.json", "map.json.prev"):
        (one.state / name).write_bytes(b"taut-state 1 damaged\n{}")
    one.start().up()
    net.wait_for_maps()
    net.connect()
    wait_until(lambda: b"node2" in (one.state / "map.json").read_bytes(), "the map to be on the disk again")


def fill(node):
    """Fills the disk of the daemon with the file `filler`."""
    with (inside(node) / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def mount(node, *words):
    """Runs a program that changes the mounts of the daemon, which are private."""
    call("nsenter", "-t", str(node.process.pid), "-m", *(str(word) for word in words))


def make_read_only(node):
    # A separate mount of the same files: the mount beneath cannot become read-only while the lock is open.
    mount(node, "mount", "--bind", node.state, node.state)
    mount(node, "mount", "-o", "remount,bind,ro", node.state)


# Fault of the disk, its repair, and the message of the kernel.
DISKS = {
    "full": (fill, lambda node: (inside(node) / "filler").unlink(), "No space left on device"),
    "read-only": (make_read_only, lambda node: mount(node, "umount", node.state), "Read-only file system"),
}


def whole_body(path):
    """Returns the body of a state file, which must be complete."""
    head, _, body = path.read_bytes().partition(b"\n")
    assert head == b"taut-state 1 " + hashlib.blake2s(b"taut-state 1\n" + body).hexdigest().encode(), path
    return body


def test_fault_k2_k3_a_disk_that_is_full_or_read_only_at_the_start(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    one = net.nodes[0]
    one.state.mkdir()
    start_with(one, f"mount -t tmpfs -o size=64k,mode=700 none {one.state}")
    for harm, mend, words in DISKS.values():
        harm(one)
        refused = one.up(net.coordinator.join_token, check=False)
        assert refused.returncode == 1 and words in refused.stderr and "the network was not joined" in refused.stderr, refused
        assert f"{one.state} cannot be saved: identity.json" in refused.stderr, refused
        # Nothing goes on, so nothing is promised.
        assert "run the command again" in refused.stderr and "runs on" not in refused.stderr, refused
        assert ("`df` shows it" in refused.stderr) == (harm is fill), refused
        assert ("the disk is full" in refused.stderr) == (harm is fill), refused
        mend(one)
    assert json.loads(net.coordinator.cli("nodes", "list", "--json").stdout)["nodes"] == [], "nobody was shown a key"
    one.up(net.coordinator.join_token)
    one.stop()
    readonly = f"mount -t tmpfs -o ro none {one.state}"
    done = one.host.run("sh", "-ec", f'{readonly}\nexec "$@"', "sh", binary("taut"), "daemon", "--state", one.state, check=False)
    assert done.returncode == 1 and "Read-only file system" in done.stderr and str(one.state) in done.stderr, done


def test_fault_k3_a_node_outlives_its_disk_says_so_and_saves_again(layout):
    """A disk that fills up, and one that becomes read-only, of two running nodes."""
    net = layout(nodes=3)
    net.coordinator.start()
    *troubled, late = net.nodes
    troubles = dict(zip(troubled, DISKS.values(), strict=True))
    for node in troubled:
        node.state.mkdir()
        start_with(node, f"mount -t tmpfs -o size=64k,mode=700 none {node.state}")
        node.up(net.coordinator.join_token)
    for node, other in (troubled, reversed(troubled)):
        node.ping_until_direct(other.name)
        wait_until(lambda: other.name.encode() in whole_body(inside(node) / "map.json"), "its map to be saved")
    for node, (harm, _, _) in troubles.items():
        harm(node)
    net.join(late)
    for node, (_, _, words) in troubles.items():
        answer = node.wait_for(lambda status: status["problem"], "the problem to be reported")["problem"]
        assert words in answer["message"] and "free or repair the disk" in answer["message"], answer
        assert str(node.state) in answer["message"] and "the node runs on" in answer["hint"], answer
        assert words in node.taut("status").stdout
        # It continues with the new map in memory only: the files on the disk stay complete and unchanged.
        late.ping_until_direct(node.name)
        assert ping(node.host, late.ipv4, count=3)["received"] == 3
        assert late.name.encode() not in whole_body(inside(node) / "map.json")
        whole_body(inside(node) / "identity.json")
        assert node.status()["state"] == "running"
    for node, (_, mend, _) in troubles.items():
        mend(node)
    for node in troubled:
        saved = inside(node) / "map.json"
        wait_until(lambda: late.name.encode() in whole_body(saved), "the map to be saved by itself", timeout=120)
        node.wait_for(lambda status: not status["problem"], "the trouble to be over", timeout=180)
        assert not list(inside(node).glob("*.new")), "scraps"


def left_files(node):
    """Returns the files in its directory. A later or interrupted save adds a copy."""
    names = (path.relative_to(node.host.state) for path in node.host.state.rglob("*"))
    return {str(name).removesuffix(".prev").removesuffix(".new") for name in names}


def open_files(node):
    """Returns the open files of the daemon, without numbers that differ from run to run."""
    links = []
    for link in Path(f"/proc/{node.process.pid}/fd").iterdir():
        # The descriptor was closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            links.append(re.sub(r"\d+", "#", os.readlink(link)))
    return sorted(links)


def end_on_the_way_up(node, chance):
    """Starts a daemon and ends it while it sets up the device, addresses and routes, or soon after."""
    flags = ("--state", node.state, "--socket", node.socket)
    process = node.host.start(binary("taut"), "daemon", *flags, name="daemon")
    devices = Path(f"/proc/{process.pid}/net/dev")
    # The loop has no pause, because the device, its addresses and its routes appear within a millisecond.
    wait_until(lambda: "taut" in devices.read_text(), "the device to be there", details=process.tail, pause=0)
    time.sleep(chance.choice((0, chance.uniform(0, 0.003), chance.uniform(0, 0.1))))
    chance.choice((process.kill, process.stop))()


def greeted(peer):
    return peer is not None and peer["last_handshake_s"] is not None


@pytest.mark.parametrize("crashes", CRASHES)
def test_fault_j9_p2_crashes_leave_the_host_as_it_was(layout, crashes):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    chance = random.Random(9)
    before, traces = one.host.network_state(), one.host.hidden_state(sockets=True)
    net.join(one, two)
    net.wait_for_maps()
    net.connect()
    address, key = one.ipv4, one.status()["self"]["node_key"]
    wait_until(lambda: not any(link.endswith(".new") for link in open_files(one)), "what is being saved to be saved")
    files, handles = left_files(one), Counter(open_files(one))
    assert one.host.network_state() != before and one.host.hidden_state(sockets=True) != traces

    def all_is_as_before(when):
        after = one.host.network_state()
        assert after == before, f"{when}: {sorted(set(after) ^ set(before))}"

    for crash in range(1, crashes + 1):
        one.kill()
        all_is_as_before(f"crash {crash}")
        end_on_the_way_up(one, chance)
        all_is_as_before(f"after crash {crash}, on the way up")
        one.start()
        # The restarted node greets its peer, so packets flow before the peer notices. No other node has a reason for a handshake.
        one.wait_for(lambda status: greeted(one.peer(two.name, status)), "a handshake by itself")
        assert ping(two.host, address, count=600, first=True)["received"], f"crash {crash}"
    assert one.status()["self"]["node_key"] == key
    # Crashes fill the event log, which is rotated once (docs/spec/state-files.md).
    assert left_files(one) - {"node/events.jsonl.1"} == files
    # Files that were open during the first count may be closed.
    wait_until(lambda: not Counter(open_files(one)) - handles, "no more open files than at first", details=lambda: f"{handles}\n{open_files(one)}")
    # The last daemon, and the one process beside it: those of earlier ones ended with theirs.
    programs = {int(pid): Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1] for pid in call("ip", "netns", "pids", one.host.namespace).stdout.split()}
    assert programs.pop(one.process.pid) == "daemon" and list(programs.values()) == ["outside"]
    one.kill()
    left = one.host.hidden_state(sockets=True)
    assert left == traces, sorted(set(left) ^ set(traces))


def test_fault_k5_no_key_in_output_arguments_environment_or_answers(layout):
    net = layout(nodes=2, env={"RUST_LOG": "trace"})
    net.coordinator.start()
    net.join(*net.nodes)
    net.wait_for_maps()
    net.connect()
    one = net.nodes[0]
    identity = json.loads((one.state / "identity.json").read_bytes().partition(b"\n")[2])
    proc = Path(f"/proc/{one.process.pid}")
    seen = [proc.joinpath(name).read_bytes() for name in ("cmdline", "environ", "comm", "status")]
    seen += [path.read_bytes() for process in (one.process, net.coordinator.process) for path in (process.err, process.out)]
    seen += [json.dumps(one.status()).encode()]
    seen += [one.taut(verb).stdout.encode() for verb in ("status", "hosts", "ip", "version")]
    # The search works: it finds the public key, which is not secret.
    assert [text for text in seen if one.status()["self"]["node_key"].encode() in text]
    for name in ("machine_key", "node_key"):
        key = base64.b64decode(identity[name])
        encoded = (key, base64.b64encode(key), base64.urlsafe_b64encode(key).rstrip(b"="))
        numbers = (key.hex().encode(), "".join(map(str, key)).encode())
        for text in seen:
            # Numbers in any brackets, in upper or lower case.
            plain = re.sub(rb"0x|[^0-9a-z]", b"", text.lower())
            assert not [form for form in encoded if form in text] + [form for form in numbers if form in plain], name
    # The coordinator writes the two tokens into a file at its first start, and nowhere else.
    for token in (net.coordinator.join_token, net.coordinator.operator_token):
        assert not [text for text in seen if token.encode() in text]
        assert net.coordinator.first_tokens.read_bytes().count(token.encode()) == 1
