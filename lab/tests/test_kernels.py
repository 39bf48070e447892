"""Debian's older kernels in virtual machines: the tests of the kernel pass there, and two nodes join and talk directly (`make kernels`)."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from lab.hosts.programs import ROOT
from lab.hosts.vm import archive, machine
from lab.hosts.wait import LabError
from lab.runs.kernels import command, earlier, lab_tests, links, pages, rust_tests

OUTPUT = """
running 4 tests
test gso ... ok
test gro - should panic ... ok
test merging ... FAILED
test slow ... ignored

failures:

---- merging stdout ----
thread 'merging' panicked at sys/udp/tests/kernel.rs:1:
one datagram

failures:
    merging
"""


@pytest.mark.root
@pytest.mark.programs
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the virtual machine reads files that only root may read")
@pytest.mark.skipif(bool(command.missing_reason()), reason=command.missing_reason())
def test_two_nodes_join_on_an_old_kernel_and_the_tests_of_the_kernel_pass_there(tmp_path):
    # The oldest kernel, which lacks most.
    series = min(archive.table(), key=lambda name: [int(number) for number in name.split(".")])
    words = [sys.executable, "-m", "lab.runs.kernels.command", "--kernels", series, "--parts", "facts,tests,network", "--json"]
    done = subprocess.run([*words, "--output", tmp_path / "results.json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    results = json.loads(done.stdout)
    [kernel] = results["kernels"]
    parts = kernel["parts"]
    assert results["schema"] == 1
    assert {name: part["ok"] for name, part in parts.items()} == {"facts": True, "tests": True, "network": True}, pages.summary(results)
    assert parts["facts"]["kernel"] == kernel["release"] and kernel["release"].startswith(series)
    assert parts["tests"]["passed"] > 70
    assert all(stream["equal"] for stream in parts["network"]["streams"]) and parts["network"]["pings"] == 20
    # What this kernel lacks is named.
    assert [one["part"] for one in parts["network"]["sandbox"]["missing"]] == ["files"]
    assert "uso" not in parts["network"]["offload"]["tun"]
    assert done.returncode == 0
    assert not list((command.LOGS / series).glob("initramfs*"))


def test_verdicts_are_read_from_the_output_of_a_test_program(tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{OUTPUT}\nEND\nexit 101\n")
    program.chmod(0o755)
    job = {"tests": [("udp/kernel", str(program), str(tmp_path))], "known": []}
    found = rust_tests.run(None, job, lambda text: None)
    assert (found["ok"], found["passed"], found["ignored"]) == (False, 2, 1)
    assert [(one["test"], "one datagram" in one["output"]) for one in found["failed"]] == [("merging", True)]
    assert rust_tests.run(None, {**job, "known": ["udp/kernel::merging"]}, lambda text: None)["ok"]
    # A program that ends badly without a verdict is a failure, known tests or not.
    program.write_text("#!/bin/sh\necho 'test gso ... ok'\nexit 139\n")
    assert not rust_tests.run(None, {**job, "known": ["udp/kernel::gso"]}, lambda text: None)["ok"]


def test_verdicts_of_the_labs_tests_are_told_as_they_come(tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text("import time\ndef test_good(): pass\ndef test_bad(): assert 0\ndef test_long(): time.sleep(600)\n")
    said = []
    monkeypatch.setattr(lab_tests.guest, "without_module", contextlib.nullcontext)
    found = lab_tests.run(None, {"lab": [f"{tmp_path}/test_it.py::test_good", f"{tmp_path}/test_it.py::test_bad"]}, said.append)
    assert said[1:] == ["test_good: passed", "test_bad: failed"]
    assert not found["ok"] and list(found["tests"].values()) == ["passed", "failed"] and "assert 0" in found["output"]
    assert lab_tests.run(None, {"lab": [f"{tmp_path}/test_it.py::test_good"]}, said.append)["ok"]
    # What is not done in time ends.
    monkeypatch.setattr(lab_tests, "LIMIT_S", 3)
    found = lab_tests.run(None, {"lab": [f"{tmp_path}/test_it.py::test_good", f"{tmp_path}/test_it.py::test_long"]}, said.append)
    assert not found["ok"] and "test_long" not in str(found["tests"]) and found["error"] == "no end after 3 s"


def test_linkbox_may_be_later_than_netem_by_the_time_that_it_reports():
    row = {"link": "delay 20ms", "echoes": 400, "lost": 0.0, "doubled": 0.0, "median_ms": 50.0, "p99_ms": 60.0, "mbit_s": None}
    linkbox, netem = {**row, "by": "linkbox", "mean_ms": 52.0, "late_ms": 9.0}, {**row, "by": "netem", "mean_ms": 43.0, "late_ms": None}
    assert links._alike(linkbox, netem)
    assert not links._alike({**linkbox, "late_ms": 0.0}, netem) and not links._alike({**linkbox, "lost": 5.0}, netem)
    # Not all that linkbox reports has to be seen, but a link cannot be faster.
    assert links._alike({**linkbox, "mean_ms": 43.0}, netem) and not links._alike({**linkbox, "mean_ms": 30.0}, netem)
    assert links._alike({**linkbox, "mbit_s": 3.8}, {**netem, "mbit_s": 4.0}) and not links._alike({**linkbox, "mbit_s": 3.0}, {**netem, "mbit_s": 4.0})
    # The cell of netem, which waits for no processor, is empty.
    assert [links.cells("6.1", one)[-2:] for one in (linkbox, netem)] == [["9.00", ""], ["", ""]]
    assert len(links.cells("6.1", netem)) == len(links.COLUMNS)


def test_a_part_that_failed_is_named(capsys):
    found = {"series": "5.10", "parts": {}}
    said = []
    rows = [{"initiator": "taut", "responder": "kernel", "verdict": "no rekey was seen"}]
    command._take({"kind": "result", "part": "wireguard", "ok": False, "seconds": 3, "rows": rows}, found, said.append)
    assert said == ["5.10 wireguard: FAILED: taut → kernel: no rekey was seen (3 s)"]
    results = {"schema": 1, "kernels": [{"release": "5.10.0", **found}]}
    assert "| 5.10.0 | wireguard | FAILED | 3 |" in pages.summary(results)


def test_parts_of_earlier_runs_stand_beside_later_ones(tmp_path):
    def results(name, series, parts, release="-1"):
        kernel = {"series": series, "release": series + release, "version": series, "pinned": True, "accelerator": "tcg", "parts": parts, "ok": all(part["ok"] for part in parts.values())}
        file = tmp_path / name
        file.write_text(json.dumps({"schema": 1, "kernels": [kernel]}))
        return file

    failed, passed = {"ok": False, "seconds": 1}, {"ok": True, "seconds": 2}
    files = [results("a", "6.1", {"facts": passed, "lab": failed}), results("b", "5.10", {"lab": failed}), results("c", "6.1", {"lab": passed})]
    old, new = earlier.merged(earlier.read(files))
    assert (old["series"], old["ok"], old["parts"]) == ("5.10", False, {"lab": failed})
    assert (new["series"], new["ok"], new["parts"]) == ("6.1", True, {"facts": passed, "lab": passed})
    # As the command does it, without a machine.
    words = [sys.executable, "-m", "lab.runs.kernels.command", "--parts", "none", "--earlier", ",".join(map(str, files)), "--output", tmp_path / "none"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert "| 6.1-1 | lab | ok | 2 |" in done.stdout and done.returncode == 1
    # Another kernel of the series is not the same line.
    with pytest.raises(LabError, match="differ in `release`"):
        earlier.merged(earlier.read([*files, results("d", "6.1", {"links": passed}, "-2")]))
    (tmp_path / "e").write_text("{}")
    with pytest.raises(LabError, match="not of schema 1"):
        earlier.read([tmp_path / "e"])


def test_a_processor_without_extensions_is_emulated(monkeypatch, tmp_path):
    """A host that is a virtual machine itself may have a /dev/kvm on which Debian's kernels hang."""
    assert machine.accelerator() in ("kvm", "tcg")
    flags = tmp_path / "cpuinfo"
    flags.write_text("processor\t: 0\nflags\t\t: fpu aes hypervisor\n")
    monkeypatch.setattr(machine, "CPU_INFO", flags)
    assert machine.accelerator() == "tcg"


def test_every_kernel_is_pinned():
    for entry in archive.table().values():
        assert entry["package"].startswith(f"linux-image-{entry['series']}.0-") and entry["version"].startswith(entry["series"])
        assert len(bytes.fromhex(entry["sha256"])) == 32
