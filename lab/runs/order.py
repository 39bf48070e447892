"""`make order`: finds out what a node runs at rest, under load and at its start, and writes it into tools/shipping/order.txt. `make packages` puts these functions side by side,
so that few pages of the program have to be in memory.

    python3 -m lab.runs.order PROGRAM       PROGRAM has symbols, as `tools/sizes.py --keep` leaves it
"""

import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

from ..hosts import functions
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..nodes import mesh as meshes
from ..traffic.work import iperf

ORDER = ROOT / "tools" / "shipping" / "order.txt"
# Time until paths are found and the map is on the disk, in seconds.
SETTLED_S = 10
# Time at rest, in seconds: longer than the periods of everything that a node does by itself but for the renewal of keys.
REST_S = 60
LOAD_S = 5
PARTS = ("at rest", "under load", "at the start")
# The first part of the names that LLVM gives to functions which it makes of equal pieces of code (outlining). The number behind it differs from build to build, so the list has none of them.
OUTLINED = "OUTLINED_FUNCTION_"
HEAD = f"# Functions of a node: those that it runs {PARTS[0]}, then {PARTS[1]}, then {PARTS[2]}. Made by `make order`; names that a program does not have are left out.\n"


def traced(folder, program):
    """Makes a folder of programs whose daemon is traced."""
    words = [sys.executable, "-I", functions.__file__, str(program), f"{folder}/hits."]
    script = f'#!/bin/sh\ncase "$1" in daemon) exec {shlex.join(words)}$$ "$@";; *) exec {shlex.quote(str(program))} "$@";; esac\n'
    (folder / "taut").write_text(script)
    (folder / "taut").chmod(0o755)


def begin_part(net):
    for node in net.nodes:
        os.kill(node.process.pid, signal.SIGUSR1)


def observe(folder, program):
    """Runs a network of traced nodes. Returns the addresses of the functions that ran in each part of their lives."""
    traced(folder, program)
    with Lab(folder / "lab") as lab:
        net = meshes.lay_out(lab, nodes=4)
        net.coordinator.start()
        for node in net.nodes:
            node.release = folder
            node.start()
            node.up(net.coordinator.join_token)
        net.wait_for_maps()
        net.connect()
        time.sleep(SETTLED_S)
        begin_part(net)
        time.sleep(REST_S)
        begin_part(net)
        one, two = net.nodes[:2]
        iperf.report(one.host, two.host, str(two.ipv4), LOAD_S, "--bidir")
        # What ends a daemon.
        begin_part(net)
    start, rest, load, end = set(), set(), set(), set()
    for file in folder.glob("hits.*"):
        parts = file.read_text().split("again\n")
        for found, part in zip((start, rest, load, end), parts, strict=True):
            found.update(int(line, 16) for line in part.split())
    return rest, load - rest, start - load - rest


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = Path(sys.argv[1]).resolve()
    names = functions.symbols(program)
    binary("taut-coordinator")
    with tempfile.TemporaryDirectory(prefix="tautlab-order-") as folder:
        parts = observe(Path(folder), program)
    lines = [HEAD]
    for part, found in zip(PARTS, parts, strict=True):
        print(f"order: {len(found)} functions {part}")
        lines += [f"# {part}\n", *(f"{name}\n" for name in sorted({names[address] for address in found if not names[address].startswith(OUTLINED)}))]
    ORDER.write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
