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
    done = one.taut("log", "--record", "info,session=debug", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "levels": "info,session=debug"}
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


def test_a_reader_follows_over_restarts_with_the_same_process_id(mesh):
    one = mesh(nodes=1).nodes[0]
    one.stop()
    # The daemon is process 1 of its own namespace, as in a container, and is restarted at once.
    again = 'while true; do unshare --pid --fork --kill-child "$@"; done'
    daemon = (binary("taut"), "daemon", "--ephemeral", "--state", one.state, "--socket", one.socket)
    keeper = one.host.start("sh", "-c", again, "sh", *daemon, name="keeper")
    wait_until(lambda: one.taut("status", check=False).stdout, "the daemon to answer")
    follower = one.host.start(binary("taut"), "log", "-f", "--json", "--socket", one.socket, name="follower")
    follower.wait_for_output('"daemon-started"')
    for _ in range(3):
        before = follower.output().count('"daemon-started"')
        one.taut("down")
        wait_until(lambda count=before: follower.output().count('"daemon-started"') > count, "the next run to be shown")
    assert follower.alive
    keeper.kill()


def test_events_that_left_the_memory_are_shown_from_the_disk(mesh):
    one = mesh(nodes=1).nodes[0]
    one.stop()
    # More lines than the daemon takes into its memory, as after an hour of level debug.
    line = '{"schema":1,"time":"2026-11-24T%02d:%02d:%02d.000Z","level":"info","area":"host","event":"route-freed","message":"m","address":"%d"}\n'
    older = [line % (number // 3600, number // 60 % 60, number % 60, number) for number in range(1_200)]
    saved = (one.state / "events.jsonl").read_text()
    (one.state / "events.jsonl").write_text("".join(older) + saved)
    one.start()
    events, notes = log(one, "--since", "2026-11-24T00:00:00")
    shown = [event["address"] for event in events if event["event"] == "route-freed"]
    assert shown == [str(number) for number in range(1_200)] and "not kept" not in notes, notes
    assert len({json.dumps(event) for event in events}) == len(events), "each event is shown once"
    first(events, "daemon-started", 1_201)
    middle, _ = log(one, "--since", "2026-11-24T01:10:00+01:00", "--until", "2026-11-24T00:10:10", "-n", "3")
    assert [event["address"] for event in middle] == ["608", "609", "610"]
    assert "events before 2026-11-24T00:00:00.000Z are not kept" in log(one, "--since", "2026-11-23")[1]
    # A directory in the place of the older file hides nothing.
    (one.state / "events.jsonl.1").mkdir()
    events, notes = log(one, "-n", "1")
    assert len(events) == 1 and "events.jsonl.1: it is not a regular file" in notes
    (one.state / "events.jsonl.1").rmdir()


def test_an_empty_answer_is_explained(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    one.ping_until_direct(two.name)

    def ask(*words):
        return one.taut("log", "--state", one.state, *words, check=False)

    by_name, by_address = ask("--peer", two.name), ask("--peer", two.ipv4)
    assert by_name.stdout and by_name.stdout == by_address.stdout
    unknown = ask("--peer", "nosuch")
    assert unknown.returncode == 1 and "there is no peer `nosuch`" in unknown.stderr
    nothing = ask("--level", "error")
    assert (nothing.returncode, nothing.stdout) == (0, "") and "no event matches" in nothing.stderr
    done = one.taut("log", "--record", "debug")
    assert "`taut log --record info`" in done.stdout and ask("--level", "debug").stdout
    assert ask("--record", "info", "--since", "5m").returncode == 2
    one.stop()
    empty = one.state / "empty"
    absent = one.taut("log", "--state", empty, check=False)
    assert (absent.returncode, absent.stdout) == (0, "") and f"there are no events in {empty}" in absent.stderr


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


@pytest.mark.parametrize("counted", [False, True], ids=["few", "counted"])
def test_fault_p5_a_flood_of_garbage_yields_few_lines(mesh, counted):
    """The line with the count comes a minute after the flood began, so waiting for it is for the night."""
    net = mesh(nodes=2)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    before = len(log(one)[0])
    sender = two.host.start("python3", "-c", GARBAGE, str(one.host.ipv4), one.status()["self"]["port"], name="garbage")
    sender.wait()
    one.wait_for(lambda status: sum(status["drops"].values()) > 10_000, "the garbage to be refused")

    def answer():
        return [event for event in log(one)[0] if event["event"] == "input-flood"]

    if counted:
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
    # A daemon's output is not trusted to be free of secrets.
    (one.state / "daemon.log").write_text(f"taut: why it did not start: {net.coordinator.join_token} {state(one, 'identity.json')['node_key']}\n")
    done = one.taut("bugreport", "--output", archive, "--state", one.state)
    assert done.stdout.strip() == str(archive) and "names and addresses" in done.stderr and "collecting: netcheck" in done.stderr, done
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with tarfile.open(archive) as opened:
        names = {member.name.partition("/")[2] for member in opened.getmembers()}
        whys = next(member for member in opened.getmembers() if member.name.endswith("why.jsonl"))
        assert json.loads(opened.extractfile(whys).read())["peer"] == two.name
    assert {"README.txt", "status.json", "why.jsonl", "events.jsonl", "saved.jsonl", "netcheck.json", "host.txt", "versions.txt", "daemon.log", "metrics.txt"} <= names
    with tarfile.open(archive) as opened:
        texts = {member.name.partition("/")[2]: opened.extractfile(member).read().decode() for member in opened.getmembers()}
    listed = {line.split()[0] for line in texts["README.txt"].partition("\n\n")[0].splitlines()}
    assert listed == names - {"README.txt"}, "README.txt lists what is there"
    assert "why it did not start: (removed) (removed)" in texts["daemon.log"]
    assert f"{two.ipv4}/32 via 0.0.0.0 on " in texts["host.txt"] and "command: " in texts["host.txt"] and " daemon --state" in texts["host.txt"]
    assert "records the levels info" in texts["versions.txt"]
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
    missing = texts["missing.txt"]
    assert "events.jsonl: no daemon answers" in missing and "status.json, why.jsonl, metrics.txt: no daemon answers" in missing
    assert "status.json" not in texts["README.txt"] and "events.jsonl" not in texts and "daemon-stopping" in texts["saved.jsonl"]
