"""A network in long use: flows that come and go, rekeys, restarts, and ten pings per second. Detects leaks and silence.

    python3 -m lab.runs.soak [--minutes N] [--seed N]

Three nodes. Each is restarted once, with SIGTERM or SIGKILL. Checks, else exit status 1: a node's own memory grows by at most 64 KiB in ten minutes
(from the fifth minute of a daemon on; if it is observed for less than five minutes, by at most 128 KiB in all, for buffers touched for the first time;
768 KiB more if it opened lanes meanwhile); it ends with no more open files than it began with; and outside of the restarts no pair of nodes is silent for
more than three seconds. Time in which the whole machine stands still does not count as silence.
"""

import argparse
import itertools
import json
import os
import random
import sys
import time

from ..hosts import needs
from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..nodes import mesh
from ..traffic.flow import Transfer

MINUTES = 60.0
SEED = 4
GROWTH_KIB = 64
GROWTH_SPAN_S = 600.0
# Observation time in seconds below which the lower limit applies. Memory is touched lazily: a queue that is deeper than before costs pages once. A
# leak of one byte per packet would cost megabytes.
SHORT_SPAN_S = 300.0
SHORT_GROWTH_KIB = 128
# Memory that stays with the allocator after lanes were opened and given back: 650 KiB after the first time, and no more after four others.
LANES_KIB = 768
SETTLED_S = 300.0
GAP_S = 3.0
PINGS_PER_S = 10
# Delay of a request in seconds that shows that the machine did not run.
_LATE_S = 2 / PINGS_PER_S
# Looks at the open files; the fewest count, because a command that has ended keeps its connection to the daemon for a moment.
_LOOKS = 5
_LOOK_PAUSE_S = 0.05
WARM_UP_BYTES = 100_000_000
# Duration in minutes below which rekeys come sooner than the two minutes of WireGuard, so that the soak sees some.
SHORT_MINUTES = 10
SHORT_REKEY_S = 15
_BEAT = (sys.executable, "-I", str(ROOT / "lab" / "traffic" / "generator.py"), "beat")


class Life:
    """A daemon from its start to its end: memory over time, open files at both ends."""

    def __init__(self, node, seconds):
        self.node, self.process = node, node.process
        self.settled = SETTLED_S if seconds > 2 * SETTLED_S else seconds / 6
        self.born = time.monotonic()
        self.samples = []
        self.first_files = self.last_files = None
        self.first_openings = self.last_openings = 0

    def look(self):
        """Records memory and files after the daemon has settled, so that what it opens at the start counts."""
        age = time.monotonic() - self.born
        if age >= self.settled:
            self._note(age)

    def end(self):
        """Records the last values, with one lane again; the only ones if the daemon ends before it has settled."""
        self.node.wait_for(lambda status: len(status["self"]["lanes"]["ports"]) == 1, "lanes to be given back")
        self._note(time.monotonic() - self.born)
        self.last_files, self.last_openings = files(self.process), self._openings()

    def _note(self, age):
        self.samples.append((age, self.process.own_kib()))
        if self.first_files is None:
            self.first_files, self.first_openings = files(self.process), self._openings()

    def _openings(self):
        """Returns how often the node opened lanes, as its log tells it."""
        return sum("more lanes run" in line for line in self.node.taut("log").stdout.splitlines())

    def growth(self):
        """Returns the rise of the regression line of the samples in KiB, and the allowed rise."""
        ages = [age for age, _ in self.samples]
        span = ages[-1] - ages[0]
        allowed = SHORT_GROWTH_KIB if span < SHORT_SPAN_S else GROWTH_KIB * max(1.0, span / GROWTH_SPAN_S)
        opened = self.last_openings > self.first_openings
        return slope(self.samples) * span, allowed + (LANES_KIB if opened else 0)

    def checks(self):
        grown, allowed = self.growth()
        minutes = (self.samples[-1][0] - self.samples[0][0]) / 60
        last = f"{self.samples[0][1]} to {self.samples[-1][1]} KiB in {minutes:.1f} minutes"
        yield f"own memory of {self.node.name} stays", grown <= allowed, f"{last}, {grown:+.0f} KiB by its trend, {allowed:.0f} allowed"
        kept = self.last_files <= self.first_files
        yield f"open files of {self.node.name} stay", kept, f"{self.first_files} then {self.last_files}"


class PingStream:
    """Ten pings per second from one node to another during the whole soak."""

    def __init__(self, source, target):
        self.name = f"{source.name} to {target.name}"
        self._process = source.host.start(*_BEAT, target.ipv4, "--interval", 1 / PINGS_PER_S, name=f"beat-{target.name}")

    def finish(self, pauses):
        """Returns (check, held, seen): the longest time without an answer, outside of the pauses."""
        self._process.close_input()
        self._process.wait()
        result = json.loads(self._process.output().splitlines()[-1])
        asked = sorted([*result["asked"], *result["unanswered"]])
        silent = longest_gap(result["answered"], result["began"], result["ended"], [*pauses, *standstills(asked)])
        seen = f"{silent:.1f} s at the longest; {len(result['answered'])} of {result['sent']} answered"
        return f"{self.name} is never silent for {GAP_S:g} s", result["sent"] > 0 and silent <= GAP_S, seen


def files(process):
    """Returns the number of open files of a process, without those that it is about to close."""
    fewest = len(os.listdir(f"/proc/{process.pid}/fd"))
    for _ in range(_LOOKS - 1):
        time.sleep(_LOOK_PAUSE_S)
        fewest = min(fewest, len(os.listdir(f"/proc/{process.pid}/fd")))
    return fewest


def slope(points):
    """Returns the slope of the least-squares line."""
    count = len(points)
    x_mean, y_mean = (sum(values) / count for values in zip(*points, strict=True))
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def standstills(asked):
    """Returns the periods (since, until) without a due request: a program that asks every tenth of a second did not run then."""
    return [(before, after) for before, after in itertools.pairwise(asked) if after - before > _LATE_S]


def longest_gap(answered, began, ended, pauses):
    """Returns the longest gap in `answered`, including the gaps from `began` and to `ended`, without the pauses."""
    longest = 0.0
    for start, end in itertools.pairwise([began, *answered, ended]):
        for since, until in sorted(pauses):
            if since < end and until > start:
                longest, start = max(longest, since - start), max(start, until)
        longest = max(longest, end - start)
    return longest


class Soak:
    """The network during its use."""

    def __init__(self, lab, minutes, seed):
        self.seconds, self.random = 60 * minutes, random.Random(seed)
        env = {"TAUT_TEST_REKEY_AFTER_S": SHORT_REKEY_S} if minutes < SHORT_MINUTES else None
        self.flows = self.rekeys = self.bytes = 0
        self.broken, self._ages = [], {}
        self.net = mesh.build(lab, nodes=3, env=env)
        self.net.connect()
        for node in self.net.nodes:
            self.warm(node)
        self.lives = {node: Life(node, self.seconds / 3) for node in self.net.nodes}
        self.ended, self.pauses = [], {node: [] for node in self.net.nodes}

    def run(self, print_line):
        """Uses the network until the time is over; returns [(check, held, seen)]."""
        pairs = list(itertools.permutations(self.net.nodes, 2))
        beats = {pair: PingStream(*pair) for pair in pairs}
        start, printed_at = time.monotonic(), 0.0
        # Spread over the middle, so that each daemon lives long before and after its restart.
        due = [(start + self.seconds * (number + 2) / 6, node) for number, node in enumerate(self.net.nodes)]
        while (now := time.monotonic()) < start + self.seconds or due:
            if due and now >= due[0][0]:
                self.restart(due.pop(0)[1])
            self.flow()
            self.look()
            if now - printed_at >= min(30.0, self.seconds / 12):
                printed_at = now
                print_line(self.line(now - start))
            time.sleep(self.random.uniform(0, 2))
        for life in self.lives.values():
            life.end()
        self.ended += self.lives.values()
        checks = [check for life in self.ended for check in life.checks()]
        checks += [beats[pair].finish(self.pauses[pair[0]] + self.pauses[pair[1]]) for pair in pairs]
        checks.append(("every flow arrives whole", self.flows > 0 and not self.broken, f"{self.flows} flows, {self.bytes / 1e9:.1f} GB, {self.broken}"))
        checks.append(("sessions are renewed", self.rekeys >= 3, f"{self.rekeys} times seen"))
        checks.append(("each side was restarted", not due, f"{len(self.ended) - 3} restarts"))
        return checks

    def warm(self, node):
        """Fills the buffers of a node once, in both directions at the same time, so that later growth counts."""
        others = [other for other in self.net.nodes if other is not node]
        pairs = [pair for other in others for pair in ((node, other), (other, node))]
        flows = [Transfer(source.host, target.host, target.ipv4, size=WARM_UP_BYTES) for source, target in pairs]
        self.broken += [result for result in (flow.finish() for flow in flows) if not result["equal"]]

    def flow(self):
        """Makes one or two simultaneous transfers between random nodes, slow or at full speed."""
        flows = []
        for _ in range(self.random.choice((1, 1, 2))):
            source, target = self.random.sample(self.net.nodes, 2)
            rate = self.random.choice((None, 5_000_000))
            size = self.random.randrange(1_000, 10_000_000 if rate else 200_000_000)
            address = self.random.choice((target.ipv4, target.ipv6))
            flows.append(Transfer(source.host, target.host, address, size=size, rate=rate))
        for flow in flows:
            result = flow.finish()
            self.flows, self.bytes = self.flows + 1, self.bytes + result["bytes"]
            if not result["equal"]:
                self.broken.append(result)

    def look(self):
        for life in self.lives.values():
            life.look()
        for node in self.net.nodes:
            for peer in node.status()["peers"]:
                age, key = peer["last_handshake_s"], (node.name, peer["name"])
                if None not in (age, self._ages.get(key)):
                    self.rekeys += age < self._ages[key]
                self._ages[key] = age

    def restart(self, node):
        """Restarts a daemon with SIGTERM or SIGKILL and waits until all others hear it again; this pause does not count as silence."""
        others = [other for other in self.net.nodes if other is not node]
        self.lives[node].end()
        self.ended.append(self.lives[node])
        since = time.monotonic()
        node.restart(kill=self.random.random() < 0.5)
        node.wait_for_peers(*(other.name for other in others))
        for other in others:
            node.ping_until_direct(other.name)
            other.ping_until_direct(node.name)
        self.pauses[node].append((since, time.monotonic()))
        self.warm(node)
        self.lives[node] = Life(node, self.seconds / 3)
        self._ages.clear()

    def line(self, passed):
        memory = ", ".join(f"{life.process.own_kib()} KiB" for life in self.lives.values())
        restarts = f"{len(self.ended)} restarts"
        return f"minute {passed / 60:.1f}: {memory}; {self.flows} flows, {self.bytes / 1e9:.1f} GB; {self.rekeys} rekeys; {restarts}"


def soak(lab, minutes=MINUTES, seed=SEED, print_line=print):
    """Uses a network for `minutes`; returns [(check, held, seen)]."""
    return Soak(lab, minutes, seed).run(print_line)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"duration (default {MINUTES:g})")
    parser.add_argument("--seed", type=int, default=SEED, help="determines the flows")
    args = parser.parse_args()
    if lacks := needs.missing():
        print(f"soak: {lacks[0]}", file=sys.stderr)
        return 1
    with Lab(ROOT / "target" / "lab" / "soak-tunnel") as lab:
        checks = soak(lab, args.minutes, args.seed, lambda line: print(line, flush=True))
        lab.failed = not all(held for _, held, _ in checks)
    for what, held, seen in checks:
        print(f"{'passed' if held else 'FAILED'}: {what} ({seen})")
    return 1 if lab.failed else 0


if __name__ == "__main__":
    sys.exit(main())
