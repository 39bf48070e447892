"""The event log: a node records what happened, also after a crash and under a flood (fault P5). `taut bugreport` contains no secret (R29)."""

import base64
import hashlib
import hmac
import json
import stat
import tarfile

import pytest

from lab.hosts import needs
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.traffic.flow import ping

BEHIND = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))

GARBAGE = """
import os, socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(20_000):
    out.sendto(bytes([number % 5, 0, 0, 0]) + os.urandom(40 + number % 200), (sys.argv[1], int(sys.argv[2])))
"""


def log(node, *words):
    """Runs `taut log` for this node. Returns its events, and the text on standard error."""
    done = node.taut("log", "--json", "--state", node.state, *words)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def first(events, name, after=0, **fields):
    """Returns the index of the first event with this name and these fields. Fails with the missing event's name."""
    for place, event in enumerate(events[after:], after):
        if event["event"] == name and all(event.get(field) == value for field, value in fields.items()):
            return place
    raise AssertionError(f"no {name} {fields} behind line {after} of {json.dumps(events, indent=1)}")


@BEHIND
def test_a_node_tells_its_story_over_a_crash(behind):
    world = behind(["port-restricted", "port-restricted"])
    one, two = world.nodes
    one.ping_until_direct(two.name)
    two.host.nat.black_hole()

    def relayed():
        ping(one.host, two.ipv4, count=3)
        return one.peer(two.name)["path"]["kind"] == "relayed"

    wait_until(relayed, "the relay to take over")
    world.coordinator.kill()
    one.wait_for(lambda status: not status["coordinator"]["connected"], "the coordinator to be missed")
    events, _ = log(one)
    one.kill()
    saved, notes = log(one)
    assert "no daemon answers" in notes
    assert [event for event in events if event["level"] in ("error", "warn", "info")] == saved, "`kill -9` loses no line"
    one.start()
    answer, _ = log(one, "--since", "1h")
    # All events are there, in order, each with its reason.
    for name in ("coordinator-connected", "network-up", "relay-bound", "outer-endpoints-changed"):
        first(answer, name)
    begin = first(answer, "daemon-started", previous="none")
    direct = first(answer, "path-changed", begin, peer=two.name, reason="direct-proven")
    assert answer[direct]["from"].startswith("relay:") and not answer[direct]["to"].startswith("relay:")
    lost = first(answer, "path-changed", direct, peer=two.name, reason="no-answer")
    assert answer[lost]["to"].startswith("relay:")
    away = first(answer, "coordinator-lost", lost)
    assert answer[away]["reason"] and answer[away]["url"] == world.coordinator.url
    first(answer, "daemon-started", away, previous="cut-off")
    assert all(event["schema"] == 1 and event["message"] for event in answer)
    # The events of one peer, as text.
    text = one.taut("log", "--peer", two.name, "--area", "path", "--state", one.state).stdout
    assert all(f"peer={two.name}" in line and "path: the path to the peer changed" in line for line in text.splitlines()), text
    assert one.taut("log", "--since", "2099-01-01").stdout == ""


def test_levels_change_while_a_reader_follows_over_a_restart(mesh):
    one = mesh(nodes=1).nodes[0]
    follower = one.host.start(binary("taut"), "log", "-f", "--json", "--socket", one.socket, "--state", one.state, name="follower")
    follower.wait_for_output('"daemon-started"')
    one.taut("log", "--level", "info,session=debug")
    follower.wait_for_output('"levels":"info,session=debug"')
    one.taut("down")
    follower.wait_for_output('"command":"down"')
    one.stop()
    one.start()
    follower.wait_for_output('"previous":"stopped"')
    lines = [json.loads(line) for line in follower.output().splitlines() if line.startswith("{")]
    names = [line["event"] for line in lines]
    assert names.count("daemon-started") == 2 and names.count("daemon-stopping") == 1, "the end of the first run is shown, and nothing twice"
    # A level is for one run of the daemon.
    first(lines, "daemon-started", 1, levels="info")


def test_an_orderly_stop_with_the_network_up_is_told_as_one(mesh):
    one = mesh(nodes=1).nodes[0]
    # The signal raises the levels, and does not end the daemon.
    daemon = one.status()["pid"]
    one.host.run("kill", "-USR1", str(daemon))
    one.wait_for(lambda _: any(event["event"] == "levels-changed" for event in log(one)[0]), "the levels to be raised")
    assert one.status()["pid"] == daemon
    one.stop()
    saved, _ = log(one)
    assert [event["event"] for event in saved[-2:]] == ["network-down", "daemon-stopping"]
    assert saved[-1]["reason"] == "signal"
    one.start()
    events, _ = log(one)
    first(events, "daemon-started", len(saved), previous="stopped")


def test_fault_p5_a_flood_of_garbage_yields_few_lines(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    before = len(log(one)[0])
    sender = two.host.start("python3", "-c", GARBAGE, str(one.host.ipv4), one.status()["self"]["port"], name="garbage")
    sender.wait()

    def answer():
        return [event for event in log(one)[0] if event["event"] == "input-flood"]

    flood = wait_until(answer, "the flood to be recorded", timeout=150)
    assert sum(event["count"] for event in flood) > 10_000, flood
    assert len(log(one)[0]) - before < 20, log(one)[0][before:]
    assert sum(file.stat().st_size for file in one.state.glob("events.jsonl*")) < 50_000


def forms(secret):
    """Returns a secret in all notations: raw, hex, and base64 of both alphabets, with and without padding."""
    texts = [secret.hex(), secret.hex().upper(), base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode()]
    return [secret, *(text.rstrip("=").encode() for text in texts)]


def state(node, name):
    return json.loads((node.state / name).read_bytes().partition(b"\n")[2])


def secrets(node, coordinator):
    """Returns every secret that this node has or had, in all notations."""
    identity = state(node, "identity.json")
    keys = {name: base64.b64decode(identity[name]) for name in ("machine_key", "node_key")}
    network = bytes.fromhex(identity["network"])
    keys["bind key"] = hmac.new(keys["machine_key"], b"taut bind v1" + network, hashlib.blake2s).digest()
    token = coordinator.join_token.removeprefix("taut1-")
    # The network's id and the coordinator's public key come first (docs/spec/join-token.md).
    keys["enrolment secret"] = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[48:80]
    found = [(name, form) for name, key in keys.items() for form in forms(key)]
    texts = [coordinator.join_token, token, coordinator.operator_token]
    if (node.state / "ticket.json").exists():
        ticket = state(node, "ticket.json")
        texts += [ticket["ticket"], ticket.get("numbered")]
    return found + [("text", text.encode()) for text in texts if text]


def leaked(archive, wanted):
    """Returns the secrets that are in the archive or in one of its files."""
    contents = [archive.read_bytes()]
    with tarfile.open(archive) as opened:
        contents += [opened.extractfile(member).read() for member in opened.getmembers()]
    return [name for name, form in wanted if any(form in content for content in contents)]


def test_r29_a_bug_report_contains_no_secret(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    archive = one.state / "report.tar"
    done = one.taut("bugreport", "--output", archive, "--state", one.state)
    assert done.stdout.strip() == str(archive) and "names and addresses" in done.stderr and "collecting: netcheck" in done.stderr, done
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as opened:
        names = {member.name.partition("/")[2] for member in opened.getmembers()}
        whys = next(member for member in opened.getmembers() if member.name.endswith("why.jsonl"))
        assert json.loads(opened.extractfile(whys).read())["peer"] == two.name
    assert {"README.txt", "status.json", "why.jsonl", "events.jsonl", "saved.jsonl", "netcheck.json", "host.txt", "versions.txt"} <= names
    wanted = secrets(one, net.coordinator)
    assert leaked(archive, wanted) == []
    assert one.taut("bugreport", "--output", archive, "--state", one.state, check=False).returncode == 1, "no file is replaced"
    # The search works: it finds a key that is in the archive.
    archive.unlink()
    key = state(one, "identity.json")["node_key"]
    line = '{"schema":1,"time":"2026-11-24T03:12:07.000Z","level":"info","area":"map","event":"peer-added","message":"m","peer":"%s"}\n' % key
    with (one.state / "events.jsonl").open("a") as file:
        file.write(line)
    one.taut("bugreport", "--output", archive, "--state", one.state)
    assert "node_key" in leaked(archive, wanted)


def test_a_bug_report_needs_no_daemon(mesh):
    one = mesh(nodes=1).nodes[0]
    one.stop()
    archive = one.state / "report.tar"
    one.taut("bugreport", "--output", archive, "--state", one.state)
    with tarfile.open(archive) as opened:
        texts = {member.name.partition("/")[2]: opened.extractfile(member).read().decode() for member in opened.getmembers()}
    assert "no daemon answers" in texts["missing.txt"] and "daemon-stopping" in texts["saved.jsonl"]
