"""`lab bench` on real hosts, and its failures: each ends with a sentence that says what to do, and leaves the host as it was."""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lab.compare import command, plan, results, run, session
from lab.compare.testbed import VisitHosts
from lab.hosts import leftovers, profiles
from lab.hosts.programs import ROOT
from lab.hosts.wait import wait_until
from lab.nodes.systems import Bare
from lab.nodes.systems.base import Running, begun, ready
from lab.traffic.work import Ping

BENCH = ("bench", "--quick", "--systems", "bare", "--profiles", "baseline", "--work", "ping")


def bench(*words, **more):
    """Starts the command as a user does, in its own session like that of a terminal, with default signal handlers, also under nohup."""
    terminal = {"start_new_session": True, "preexec_fn": lambda: [signal.signal(number, signal.SIG_DFL) for number in session.INTERRUPTS]}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "lab", *map(str, words)], **{"cwd": ROOT} | more, **terminal, **pipes)


def ended(process):
    """Returns (exit status, standard output, standard error)."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def left_by(pid, start):
    """Returns namespaces and directories of a process, running or not."""
    mark = f"{pid}-{start}"
    return [name for name, _, _ in leftovers.namespaces() if f"-{mark}-" in name] + list(leftovers.RUN_DIR.glob(mark))


@contextlib.contextmanager
def in_the_middle(file):
    """Starts a bench of the bare link and waits for its first row; yields (process, its start time)."""
    process = bench(*BENCH, "--rounds", 3, "--output", file)
    start = leftovers.start_time(process.pid)
    try:
        wait_until(lambda: process.poll() is not None or (file.exists() and results.load(file)["runs"]), "the first row")
        wait_until(lambda: process.poll() is not None or left_by(process.pid, start), "the hosts of the next one", pause=0.01)
        assert process.poll() is None, process.communicate()
        yield process, start
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def told_lab(*words):
    """Runs the command within this process."""
    parser = argparse.ArgumentParser(prog="lab")
    command.add(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    return args.run(args)


@pytest.fixture
def no_page(monkeypatch):
    monkeypatch.setattr(session.pages, "make", lambda *_: False)


@pytest.mark.root
def test_the_bare_link_is_measured_end_to_end(no_page, tmp_path):
    file = tmp_path / "results.json"
    assert told_lab(*BENCH, "--rounds", 1, "--output", file) == 0
    (found,) = results.load(file)["runs"]
    # CPU time is counted in ticks of 10 ms, without idle and stolen time: for such a short work on a shared host it may be 0.
    assert found["ok"] and found["figures"]["p50_ms"] > 0 and found["cpu"]["capacity_s"] > 0
    assert not left_by(os.getpid(), leftovers.start_time(os.getpid()))


# --- arguments and missing requirements ---


def test_an_unknown_system_is_refused_with_the_known_names():
    code, out, err = ended(bench("bench", "--systems", "taut-aes,nebulla"))
    assert (code, out) == (2, "")
    assert err.startswith("lab: there is no system 'nebulla'; there are: bare, ") and "nebula" in err and len(err.splitlines()) == 1


@pytest.mark.root
def test_without_root_it_says_so_and_begins_nothing():
    with tempfile.TemporaryDirectory() as name:
        # The project may be in a directory that only root may enter.
        os.chmod(name, 0o755)
        shutil.copytree(ROOT / "lab", f"{name}/lab", ignore=shutil.ignore_patterns("__pycache__", "tests"))
        python = shutil.which("python3", path=os.defpath) or sys.executable
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        asked = subprocess.run([python, "-B", "-m", "lab", *BENCH], cwd=name, **nobody, capture_output=True, text=True, timeout=60, check=False)
        assert (asked.returncode, asked.stdout) == (1, "")
        assert asked.stderr == "lab: needs root, to make network namespaces and TUN devices: run it with sudo\n"
        assert os.listdir(name) == ["lab"]


@pytest.mark.root
def test_a_missing_program_is_named_with_its_package(tmp_path):
    """All programs except iperf3 are installed."""
    there = tmp_path / "bin"
    there.mkdir()
    for name in ("ip", "wg", "ss", "git", "nft", "tc", "ethtool"):
        if found := shutil.which(name):
            (there / name).symlink_to(found)
    code, out, err = ended(bench(*BENCH, "--output", tmp_path / "results.json", env={**os.environ, "PATH": str(there)}))
    assert (code, out) == (1, "")
    assert "lab: the program iperf3 is missing: apt-get install iperf3\n" in err
    assert not (tmp_path / "results.json").exists()


# --- broken adapters ---


class Ends(Bare):
    """Its program ends before it is usable."""

    name = title = "ends"

    def start(self, hosts, helper, mtu):
        def begin(n):
            process = hosts[n].start("sh", "-c", "echo 'no such key' >&2; exit 3", name="ends")
            process.wait()
            return [process]

        return ready(hosts, begun(hosts, begin, ["10.9.9.1", "10.9.9.2"], "eth0"))


class Hangs(Bare):
    """Its start never ends."""

    name = title = "hangs"

    def start(self, hosts, helper, mtu):
        hosts[0].start("sh", "-c", "echo waiting for a friend; sleep 1000", name="hangs")
        hosts[0].run("sleep", 1000, timeout=1000)


class Dies(Bare):
    """Its program ends during the work."""

    name = title = "dies"

    def start(self, hosts, helper, mtu):
        bare = super().start(hosts, helper, mtu)
        process = hosts[1].start("sh", "-c", "sleep 0.7; echo out of luck >&2; exit 9", name="dies")
        return Running(bare.addresses, bare.interface, [[], [process]])


class Stays(Bare):
    """It does not end when it is stopped."""

    name = title = "stays"

    def start(self, hosts, helper, mtu):
        running = super().start(hosts, helper, mtu)
        running.stop = lambda: hosts[0].run("sleep", 1000, timeout=1000)
        return running


@pytest.mark.root
def test_broken_adapters_are_rows_with_a_reason_and_stop_nothing_else(tmp_path):
    lines, place = [], VisitHosts(tmp_path / "logs", "cubic")
    systems = [Bare(), Ends(), Hangs(), Dies(), Stays()]
    one = run.Comparison(systems, [Ping()], {"baseline": profiles.load()["baseline"]}, place, quick=True, rounds=3, tries=1)
    one.start_limit_s = 2
    one.stages = plan.picked([plan.Part(tuple(one.known.systems), ("baseline",), ("ping",))], 3)
    assert one.run(lines.append), "all of it has its row"
    rows = {name: [row for row in one.runs if row["system"] == name] for name in one.known.systems}
    assert {name: [row["ok"] for row in own] for name, own in rows.items()} == {
        "bare": [True] * 3, "ends": [False] * 3, "hangs": [False] * 3, "dies": [False] * 3, "stays": [True] * 3
    }  # fmt: skip
    first = {name: own[0]["error"] for name, own in rows.items()}
    assert first["ends"].splitlines()[0] == "did not start: ends ended with 3" and "no such key" in first["ends"]
    assert first["hangs"].splitlines()[0] == "did not start: no end after 2 s: the start of hangs" and "waiting for a friend" in first["hangs"]
    assert first["dies"].splitlines()[0] == "ping, idle was done, but dies of the system has ended" and "out of luck" in first["dies"]
    assert [row["tried"] for row in rows["ends"]] == [True, True, False], "a third time is hopeless"
    assert "  no end after 2 s: the end of stays" in lines
    assert not left_by(os.getpid(), leftovers.start_time(os.getpid()))
    assert sorted({path.name.split("-")[-2] for path in (tmp_path / "logs").iterdir()} & set(rows)) == ["dies", "ends", "hangs"], "what failed left its logs"


# --- interrupted runs ---


@pytest.mark.root
@pytest.mark.parametrize("number", session.INTERRUPTS, ids=lambda number: number.name)
def test_an_interrupt_in_the_middle_leaves_a_clean_host_and_can_be_resumed(no_page, tmp_path, number):
    file = tmp_path / "results.json"
    with in_the_middle(file) as (process, start):
        os.killpg(process.pid, number)
        # The user interrupts twice.
        time.sleep(0.05)
        os.killpg(process.pid, number)
        code, _, err = ended(process)
    assert code == 130 and "Traceback" not in err
    assert err.splitlines() == ["lab: a moment, the hosts are being removed", "lab: interrupted; the hosts are gone, what was measured is kept, and --resume goes on"]
    assert not left_by(process.pid, start)
    kept = results.load(file)
    assert 1 <= len(kept["runs"]) < 3 and len(kept["left_out"]) == 3 - len(kept["runs"])
    assert told_lab(*BENCH, "--rounds", 3, "--resume", "--output", file) == 0
    kept = results.load(file)
    assert len(kept["runs"]) == 3 and all(row["ok"] for row in kept["runs"]) and not kept["left_out"]


@pytest.mark.root
@pytest.mark.alone  # Any run of the lab beside it removes what a killed one left.
def test_leftovers_of_a_killed_run_are_removed_by_the_next_one(no_page, tmp_path, capsys):
    with in_the_middle(tmp_path / "killed.json") as (process, start):
        process.kill()
        process.wait()
        assert left_by(process.pid, start), "nobody could clean up"
        assert told_lab(*BENCH, "--rounds", 1, "--output", tmp_path / "next.json") == 0
    assert "bench: removed what a killed run had left: " in capsys.readouterr().out
    assert not left_by(process.pid, start)


ADDS = """
import sys
from pathlib import Path
from lab.hosts import leftovers
with leftovers.word_in(Path(sys.argv[1]), "two"):
    print("added", flush=True)
    sys.stdin.read()
"""


@pytest.mark.root
@pytest.mark.alone
@pytest.mark.parametrize("killed", [False, True])
def test_a_word_that_a_run_added_to_a_list_of_the_kernel_s_goes_with_it(tmp_path, killed):
    list_ = tmp_path / "list"
    list_.write_text("one three\n")
    process = subprocess.Popen([sys.executable, "-c", ADDS, str(list_)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    start = leftovers.start_time(process.pid)
    try:
        assert process.stdout.readline() == "added\n" and list_.read_text() == "one three two"
        # A web server of the lab runs as another user and serves from there.
        assert (Path(leftovers.RUN_DIR) / f"{process.pid}-{start}").stat().st_mode & 0o777 == 0o755
        if killed:
            process.kill()
    finally:
        process.communicate()
    assert (list_.read_text() == "one three two") == killed
    leftovers.clean()
    assert list_.read_text() == "one three" and not list(Path(leftovers.RUN_DIR).glob(f"{process.pid}-{start}"))
