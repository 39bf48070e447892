"""The daemon's sandbox (fault P3): what code that an attacker runs inside of the daemon cannot do, and that all of the daemon is inside."""

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.taut import answering

# Calls that only an attacker makes end the daemon; it starts again clean.
DEADLY = ("execve", "ptrace", "process-vm-readv", "init-module")
# Needs a right that this machine's root may lack, or a kernel that has it: success without a sandbox is not certain.
UNSURE = {"init-module", "write-sysctl", "audit-socket", "process-vm-readv", "perf-event", "userfaultfd", "io-uring", "keyctl", "vsock", "execve", "environment-of-another"}

# landlock_create_ruleset(2) has this number on every processor, and this flag asks for the version alone.
_LANDLOCK_CREATE_RULESET, _VERSION = 444, 1


def lacking_parts():
    """Returns the parts of the sandbox that this kernel lacks: files, before Linux 5.13 or without Landlock among its security modules."""
    version = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return [] if version > 0 else ["files"]


def attempts():
    """Returns the names of all attempts."""
    return subprocess.run([binary("breakin")], capture_output=True, text=True, check=False).stdout.split()


@pytest.fixture
def target():
    """A process and a directory with a file, which belong to the test."""
    folder = Path(tempfile.mkdtemp(prefix="tautlab-outside-"))
    (folder / "secret").write_text("secret")
    process = subprocess.Popen(["sleep", "600"])
    yield process, folder
    process.kill()
    process.wait()
    shutil.rmtree(folder)


def break_in(node, token, target, names, sandbox="on"):
    """Starts a daemon on the host of `node` that tries these attempts once the network is up; returns the results by name, and the daemon's process."""
    process, folder = target
    words = (binary("taut"), node.state, node.socket, "taut0", sandbox, process.pid, folder, ",".join(names))
    daemon = node.process = node.host.start(binary("breakin"), *words, name="breakin")
    wait_until(lambda: answering(node.socket), "the daemon to answer", details=daemon.tail)
    node.up(token, check=False)
    results = node.state / "breakin"
    wait_until(lambda: results.exists() and (results.read_text().endswith("end\n") or not daemon.alive), "the attempts to end", details=daemon.tail)
    lines = [line.partition(" ") for line in results.read_text().splitlines()]
    return {name: outcome for name, _, outcome in lines if name != "end"}, daemon


def test_fault_p3_injected_code_reaches_no_other_file_program_or_process(layout, target):
    net = layout(nodes=1)
    [node] = net.nodes
    names = [name for name in attempts() if name not in DEADLY]
    results, daemon = break_in(node, net.coordinator.start().join_token, target, names)
    assert list(results) == names
    denied = re.compile(r"(Operation not permitted|Permission denied|Function not implemented) \(os error")
    assert {name: outcome for name, outcome in results.items() if not denied.match(outcome)} == {}
    assert target[0].poll() is None and (target[1] / "secret").read_text() == "secret"
    assert [path.name for path in target[1].iterdir()] == ["secret"]
    assert daemon.stop() == 0


@pytest.mark.parametrize("name", DEADLY)
def test_fault_p3_a_call_that_only_an_attacker_makes_ends_the_daemon(layout, target, name):
    net = layout(nodes=1)
    [node] = net.nodes
    results, daemon = break_in(node, net.coordinator.start().join_token, target, [name])
    assert results == {name: ""}, "it did not return"
    wait_until(lambda: not daemon.alive, "the daemon to end")
    assert daemon.returncode == -signal.SIGSYS
    assert target[0].poll() is None


def test_fault_p3_without_the_sandbox_the_same_code_gets_out(layout, target):
    net = layout(nodes=1)
    [node] = net.nodes
    # These come last: a mount and another root hide the files, and a signal ends the target.
    last = ("kill", "mount", "chroot", "tgkill")
    names = sorted((name for name in attempts() if name not in UNSURE), key=lambda name: last.index(name) if name in last else -1)
    results, _ = break_in(node, net.coordinator.start().join_token, target, names, sandbox="off")
    failed = {name: outcome for name, outcome in results.items() if outcome != "succeeded"}
    assert set(failed) <= {"tgkill"}, failed
    assert len(results) > 12


def test_fault_p3_every_thread_is_inside_and_the_node_works(mesh):
    net = mesh(nodes=2, env={"TAUT_LANES": "2"})
    one, two = net.nodes
    assert one.ping("node2") and one.ping_until_direct("node2")
    sandbox = one.status()["sandbox"]
    assert [one["part"] for one in sandbox["missing"]] == lacking_parts(), sandbox
    assert {"files", "capabilities", "system-calls", "privileges", "core-dumps"} <= {*sandbox["on"], *lacking_parts()}
    tasks = list(Path(f"/proc/{two.process.pid}/task").iterdir())
    assert len(tasks) >= 4, "agent, control and two lanes"
    for task in tasks:
        facts = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        assert (facts["Seccomp"], facts["NoNewPrivs"]) == ("2", "1"), facts["Name"]
        # CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_BPF.
        assert int(facts["CapPrm"], 16) & ~(1 << 10 | 1 << 12 | 1 << 39) == 0, facts["Name"]
    limits = Path(f"/proc/{two.process.pid}/limits").read_text()
    assert re.search(r"Max core file size +0 +0 ", limits)
    keys = [path for path in two.state.iterdir() if path.stat().st_mode & 0o077]
    assert two.state.stat().st_mode & 0o077 == 0 and keys == [], "other users cannot read a state file"


def test_the_end_of_the_process_beside_the_daemon_is_told(mesh):
    [node] = mesh(nodes=1).nodes
    node.stop()
    node.start().up()
    assert node.status()["warnings"] == []
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    beside = [int(pid) for pid in children if b"\0outside\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(beside) == 1
    os.kill(beside[0], signal.SIGKILL)
    status = node.wait_for(lambda status: status["warnings"], "its warning")
    assert "`taut outside` ended" in status["warnings"][0]["message"] and "restart" in status["warnings"][0]["hint"]
    events = [json.loads(line)["event"] for line in node.taut("log", "--json", "--state", node.state).stdout.splitlines()]
    assert events.count("outside-ended") == 1
    node.restart()
    assert node.status()["warnings"] == []


def test_the_sandbox_is_switched_off_at_the_start_only(mesh):
    [node] = mesh(nodes=1).nodes
    refused = node.taut("set", "--no-sandbox", check=False)
    assert refused.returncode == 1 and "holds from the daemon's start to its end" in refused.stderr
    node.stop()
    # Code inside of the daemon could write this file for the next one, in the format of engine/control/src/disk.rs. It does not decide.
    start, body = b"taut-state 1\n", b"sandbox = false\n"
    header = b"taut-state 1 " + hashlib.blake2s(start + body).hexdigest().encode() + b"\n"
    (node.state / "settings").write_bytes(header + body)
    node.start()
    assert node.status()["sandbox"]["missing"] == []
    node.stop()
    node.start("--no-sandbox")
    assert node.status()["sandbox"] is None
    assert "off: the daemon keeps all rights" in node.taut("status", check=False).stdout
    assert "event=sandbox-off" in node.taut("log").stdout
