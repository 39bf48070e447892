"""The measurements of `make restarts`: each lays out its own hosts, makes the runs, and yields rows."""

import sys
import time

from ..hosts.programs import binary
from ..nodes import mesh as meshes
from ..traffic.flow import PingStream, answers
from .path_rows import Row, recovery

# Limits of the table, in milliseconds.
AWAY_MS = 2_000
ANSWER_MS = 50
# The share of runs that is judged.
SHARE = 0.99
# Restarts during one stream of echo requests, and the time between these in seconds.
TOGETHER = 10
EACH_S = 0.005
# Pause of the unit after a crash (RestartSec= in dist/systemd/taut.service), and between two restarts, in seconds.
PAUSE_S = 0.2
QUIET_S = 0.5
# Starts a daemon again and again, and prints how many milliseconds its first answer takes each time. It runs in the host, so that nothing else is in the time.
_COLD = """
import json, os, socket, subprocess, sys, time
program, state, path, runs = sys.argv[1:4] + [int(sys.argv[4])]
for _ in range(runs):
    began = time.monotonic()
    daemon = subprocess.Popen([program, "daemon", "--state", state, "--socket", path, "--no-dns"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    while True:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(path)
            stream.sendall(b'{"command":"status"}\\n')
            if stream.recv(1):
                break
        except OSError:
            time.sleep(0.0002)
        finally:
            stream.close()
    print(1000 * (time.monotonic() - began), flush=True)
    daemon.terminate()
    daemon.wait()
"""


def network(made):
    """Lays out two nodes with a direct path."""
    net = meshes.build(made, nodes=2)
    net.connect()
    return net


def away(lab, runs, end):
    """Returns for how many milliseconds a node did not answer in each run; `end(node)` ends its daemon."""
    found = []
    with lab() as made:
        one, two = network(made).nodes
        while len(found) < runs:
            moments = []
            with PingStream(one.host, two.ipv4, EACH_S) as stream:
                for _ in range(min(TOGETHER, runs - len(found))):
                    time.sleep(QUIET_S)
                    moments.append(time.monotonic())
                    end(two)
                    flags = ("--state", two.state, "--socket", two.socket)
                    two.process = two.host.start(binary("taut"), "daemon", *flags, name="daemon", env=two.env)
                    while not answers(one.host, two.ipv4, 1):
                        pass
                record = stream.finish()
            found += [recovery(record, moment) for moment in moments]
            print(f"restarts: {len(found)} of {runs}", file=sys.stderr, flush=True)
    return found


def upgrade(lab, runs):
    """Measures a restart by the service manager."""
    yield Row("upgrade", AWAY_MS, away(lab, runs, lambda node: node.stop()), by_share=SHARE)


def crash(lab, runs):
    """Measures a crash."""

    def end(node):
        node.kill()
        time.sleep(PAUSE_S)

    yield Row("crash", AWAY_MS, away(lab, runs, end), by_share=SHARE)


def starts(node, runs):
    """Returns how many milliseconds the first answer of a daemon takes in each run."""
    done = node.host.run(sys.executable, "-I", "-c", _COLD, binary("taut"), node.state, node.socket, runs, timeout=600)
    return [float(line) for line in done.stdout.split()]


def cold(lab, runs):
    """Measures the start of a daemon that is in no network."""
    with lab() as made:
        [node] = meshes.lay_out(made, nodes=1).nodes
        yield Row("cold", ANSWER_MS, starts(node, runs), by_share=SHARE)


def joined(lab, runs):
    """Measures the start of a daemon that is a member."""
    with lab() as made:
        node = network(made).nodes[1]
        node.stop()
        yield Row("joined", ANSWER_MS, starts(node, runs), by_share=SHARE)


MEASURED = {"upgrade": upgrade, "crash": crash, "cold": cold, "joined": joined}
