"""The lab itself: hosts reach each other, and nothing is left behind."""

import contextlib
import os
import subprocess
import sys

import pytest

from lab import conftest
from lab.hosts import leftovers
from lab.hosts.net import Lab
from lab.hosts.programs import ROOT
from lab.hosts.wait import LabError, wait_until
from lab.traffic.flow import Listener, Probe, Transfer, ping


def namespaces_of(owner):
    return [name for name, _, _ in leftovers.namespaces() if f"-{owner}-" in name]


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("routed", [False, True], ids=["switch", "router"])
def test_hosts_reach_each_other(lab, family, routed):
    left = lab.switch("left")
    right = lab.switch("right") if routed else left
    if routed:
        lab.router("gate", left, right)
    one, two = lab.host("one", left), lab.host("two", right)
    there = getattr(two, family)
    assert ping(one, there, count=3)["received"] == 3
    assert Transfer(one, two, there, size=3_000_000).finish()["equal"]


def test_a_family_that_a_switch_lacks_is_not_there(lab):
    one = lab.host("one", lab.switch("six", ipv4=False))
    assert one.ipv4 is None
    assert one.ipv6


def test_static_routes_lead_over_several_routers(lab):
    left, middle, right = lab.switch("left"), lab.switch("middle"), lab.switch("right")
    first, second = lab.router("first", left, middle), lab.router("second", middle, right)
    one, two = lab.host("one", left), lab.host("two", right)
    first.route(right.subnets[0], second.addresses[0])
    second.route(left.subnets[0], first.addresses[2])
    assert ping(one, two.ipv4, count=3)["received"] == 3


def test_a_cut_wire_loses_probes_and_the_count_shows_it(lab):
    switch = lab.switch("lan")
    one, two = lab.host("one", switch), lab.host("two", switch)
    probe = Probe(one, two, two.ipv4, interval=0.01)
    switch.ip("link set two.0 down")
    with pytest.raises(LabError):
        two.run("false")
    assert ping(one, two.ipv4, count=2)["received"] == 0
    result = probe.finish()
    assert result["lost"]
    assert result["sent"] > result["received"]


def test_the_listener_sees_plaintext(lab):
    switch = lab.switch("lan")
    one, two = lab.host("one", switch), lab.host("two", switch)
    listener = Listener(switch, two)
    assert Transfer(one, two, two.ipv6, size=500_000).finish()["equal"]
    assert listener.finish()["plaintext"] > 0


def test_stopping_a_process_ends_its_whole_group(lab):
    host = lab.host("one", lab.switch("lan"))
    process = host.start("sh", "-c", "sleep 1000 & echo child $!; wait")
    process.wait_for_output("child")
    child = int(process.output().split()[1])
    process.stop()
    wait_until(lambda: leftovers.start_time(child) is None, "the child to end")


@pytest.mark.root
def test_all_is_gone_at_the_end_and_logs_stay_only_after_a_failure(tmp_path):
    owner = leftovers.owner()
    for fails in (False, True):
        with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
            with Lab(tmp_path / "logs") as lab:
                host = lab.host("one", lab.switch("lan"))
                # Its own session hides it from the process group of its parent; the namespace still lists it.
                host.start("sh", "-c", "setsid sleep 1000 & echo $! started").wait_for_output("started")
                stray = int(host.processes[0].output().split()[0])
                assert host.state.is_dir() and namespaces_of(owner)
                if fails:
                    _ = 1 / 0
        assert namespaces_of(owner) == []
        assert leftovers.start_time(stray) is None
        assert not (leftovers.RUN_DIR / owner).exists()
        assert (tmp_path / "logs" / "one").exists() == fails


CRASH = """
import os, sys
from lab.hosts.net import Lab
lab = Lab(sys.argv[1])
host = lab.host("one", lab.switch("lan"))
stray = host.start("setsid", "sleep", "1000")
_ = host.state
print(os.getpid(), flush=True)
sys.stdin.read()
"""


# Alone: each lab that starts cleans, too, and may do so before this one's command.
@pytest.mark.root
@pytest.mark.alone
def test_leftovers_of_a_dead_run_are_cleaned_and_a_live_lab_is_not(tmp_path):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", CRASH, str(tmp_path / name)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("dead", "live")
    ]
    try:
        owners = []
        for run in runs:
            pid = int(run.stdout.readline())
            owners.append(f"{pid}-{leftovers.start_time(pid)}")
        dead, live = owners
        runs[0].kill()
        runs[0].wait()
        assert len(namespaces_of(dead)) == 2
        cleaned = subprocess.run(
            [sys.executable, "-m", "lab", "clean"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert dead in cleaned.stdout
        assert namespaces_of(dead) == []
        assert not (leftovers.RUN_DIR / dead).exists()
        assert len(namespaces_of(live)) == 2
        assert (leftovers.RUN_DIR / live).exists()
    finally:
        for run in runs:
            run.kill()
            run.communicate()
        leftovers.clean()


@pytest.mark.root
def test_a_missing_requirement_is_reported():
    answer = subprocess.run(
        [sys.executable, "-m", "lab", "check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/nonexistent"},
    )
    assert answer.returncode == 1
    assert "apt-get install iproute2" in answer.stderr


class FakeTest:
    """A collected test, as pytest passes it to conftest.py."""

    def __init__(self, *fixturenames, marks=()):
        self.fixturenames, self.marks = fixturenames, list(marks)

    def add_marker(self, mark):
        self.marks.append(mark if isinstance(mark, str) else mark.name)

    def get_closest_marker(self, name):
        return name if name in self.marks else None


@pytest.mark.parametrize("lacks", [[], ["needs root"]])
def test_only_tests_that_need_root_are_skipped_without_it(monkeypatch, lacks):
    monkeypatch.setattr(conftest, "_lacks", lambda: lacks)
    by_fixture, by_mark, pure = FakeTest("mesh", "lab"), FakeTest("tmp_path", marks=["root"]), FakeTest("tmp_path")
    conftest.pytest_collection_modifyitems([by_fixture, by_mark, pure])
    assert by_fixture.marks == by_mark.marks == ["root", *(["skip"] if lacks else [])]
    assert pure.marks == []
