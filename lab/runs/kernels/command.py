"""Starts a virtual machine per kernel, shows what happens in it, and writes results and documents.

    python3 -m lab.runs.kernels.command [--kernels 5.10,6.1] [--parts facts,tests,network,lab,wireguard,links] [--seconds N] [--families 4,6] [--lab NODE-IDS] [--earlier FILES] [--json] [--output FILE] [--document]

Exit status 1 if a part failed. Machines run one after the other: each takes the processor time of a core or two. `--document` puts the tables of what was run into
docs/interop.md, docs/linkbox.md and docs/kernels.md, so it belongs to results of all kernels and parts. `--earlier` adds to what is
printed and documented the parts that earlier runs wrote with `--output`; `--parts none` then boots nothing.
"""

import argparse
import json
import sys
from pathlib import Path

from ...compare.tunnel.page import placed
from ...hosts.programs import ROOT, binary
from ...hosts.vm import archive, machine
from ...hosts.wait import LabError
from .. import command, interop
from . import PARTS, SCHEMA, built, earlier, pages

OUTPUT = ROOT / "target" / "kernels" / "results.json"
LOGS = ROOT / "target" / "lab" / "kernels"
COMMAND = f"{sys.executable} -m lab.runs.kernels.inside"
# Longest run of a machine with KVM, in seconds; the machine takes several times that without.
LIMIT_S = 900
# Tests of the lab: an exit node and the kill switch, also after a crash, which use nftables, rules of routing and connection tracking; the sandbox; wg-quick.
LAB = (
    "lab/tests/test_exit.py::test_a_member_reaches_the_internet_through_an_exit_node_with_its_address",
    "lab/tests/test_kill_switch.py::test_fault_j7_everything_but_our_own_packets_takes_the_exit_node",
    "lab/tests/test_kill_switch.py::test_fault_j5_programs_that_name_the_interface_do_not_go_past_the_exit_node",
    "lab/tests/test_kill_switch.py::test_fault_j1_j2_j3_j5_nothing_leaves_in_the_clear[killed]",
    "lab/tests/test_kill_switch.py::test_fault_j9_a_crash_without_the_kill_switch_leaves_a_host_that_works",
    "lab/tests/test_sandbox.py::test_fault_p3_every_thread_is_inside_and_the_node_works",
    "lab/tests/test_wg_quick.py::test_a_full_tunnel_with_policy_routing",
)


def missing_reason():
    """Returns why kernels cannot be booted here, or an empty string."""
    return archive.lacking() or machine.missing_reason()


def run(series, parts, options, say):
    """Runs the parts on one kernel; returns its results."""
    kernel = archive.fetch(series)
    say(f"{series}: {kernel.release} (package {kernel.version}{'' if kernel.pinned else ', not the pinned one'}), {machine.accelerator()}")
    job = {
        "parts": parts,
        "seconds": options.seconds,
        "families": options.families,
        "config": str(kernel.folder / "boot" / f"config-{kernel.release}"),
        "tests": built.test_programs() if "tests" in parts else [],
        "known": built.known(series),
        "lab": options.lab,
        "pytest": built.python_with_pytest(),
    }
    found = {"series": series, "release": kernel.release, "version": kernel.version, "pinned": kernel.pinned, "accelerator": machine.accelerator(), "parts": {}}
    inside = f"TAUT_BIN_DIR={binary('taut').parent} {COMMAND}"
    with machine.Machine(kernel, inside, job, LOGS / series) as vm:
        for message in vm.messages(LIMIT_S):
            _take(message, found, say)
        lacks = [part for part in parts if part not in found["parts"]]
        if lacks:
            found["parts"][lacks[0]] = {"ok": False, "error": f"the machine ended before it was done\n{vm.tail()}"}
    found["ok"] = not lacks and all(part["ok"] for part in found["parts"].values())
    return found


def _take(message, found, say):
    kind, part = message.get("kind"), message.get("part", "")
    if kind == "result":
        content = {key: value for key, value in message.items() if key not in ("kind", "part")}
        found["parts"][part] = content
        say(f"{found['series']} {part}: {'ok' if content['ok'] else 'FAILED: ' + _why(content)} ({content['seconds']:.0f} s)")
    elif kind == "progress":
        say(f"{found['series']} {part}: {message['text']}")


def _why(content):
    """Returns in one line what failed."""
    if "error" in content:
        return content["error"].splitlines()[0]
    names = [f"{one['program']}::{one['test']}" for one in content.get("failed", [])]
    names += [name for name, verdict in content.get("tests", {}).items() if verdict not in ("passed", "skipped")]
    names += [f"{row['initiator']} → {row['responder']}: {row['verdict']}" for row in content.get("rows", []) if row.get("verdict", "ok") != "ok"]
    return ", ".join(names) or "see the results"


def _parser():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.kernels.command", description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default=",".join(archive.table()), help="series, separated by commas")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to run, separated by commas, or none")
    parser.add_argument("--seconds", type=float, default=interop.SECONDS, help="traffic through a rekey of WireGuard, in seconds")
    parser.add_argument("--families", type=lambda text: [int(word) for word in text.split(",")], default=[4, 6], help="IP versions below WireGuard (default 4,6)")
    parser.add_argument("--lab", type=lambda text: text.split(","), default=list(LAB), help="tests of the lab to run inside, as pytest names them")
    parser.add_argument("--earlier", type=lambda text: [Path(word) for word in text.split(",")], default=[], help="files with results of earlier runs, separated by commas")
    parser.add_argument("--json", action="store_true", help="print the results as JSON; progress goes to standard error")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--document", action="store_true")
    return parser


def main():
    options = _parser().parse_args()
    parts = [part for part in PARTS if part in options.parts.split(",")]

    def work():
        if parts and (lack := missing_reason()):
            raise LabError(lack)
        before = earlier.read(options.earlier)
        own = {"schema": SCHEMA, "kernels": []}
        for series in options.kernels.split(",") if parts else ():
            own["kernels"].append(run(series, parts, options, _say))
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(own, indent=1) + "\n")
        results = {"schema": SCHEMA, "kernels": earlier.merged([*before, own])}
        print(json.dumps(results, indent=1) if options.json else pages.summary(results))
        if options.document:
            pages.write(results, placed)
        return 0 if all(kernel["ok"] for kernel in results["kernels"]) else 1

    return command.run("kernels", (), work)


def _say(text):
    print(f"kernels: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
