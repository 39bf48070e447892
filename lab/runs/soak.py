"""A network in long use: flows that come and go, rekeys, restarts, and ten pings a second all the while. Does anything leak, or fall silent?

    python3 -m lab.runs.soak [--minutes N] [--seed N]

Three nodes. Each is restarted once, politely or by a kill. Held must be, else exit code 1: memory grows by no more than 64 KiB in ten minutes
(from a daemon's fifth minute on; where it is looked at for less than five minutes, by no more than 128 KiB in all: buffers that are touched for
the first time), it ends with no more open files than it began with, and outside of the restarts no two nodes are silent to each other for more
than three seconds. A machine that stands still asks nothing meanwhile, so that time is no silence.
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
# Memory is touched lazily: a queue that is deeper than ever before costs pages once. A leak of one byte per packet would cost megabytes.
SHORT_SPAN_S = 300.0
SHORT_GROWTH_KIB = 128
SETTLED_S = 300.0
GAP_S = 3.0
PINGS_PER_S = 10
# Who asks later than this after the last time was kept from running.
_LATE_S = 2 / PINGS_PER_S
# A command that has ended is a connection to the daemon for a moment longer: the fewest open files of so many looks count.
_LOOKS = 5
_LOOK_PAUSE_S = 0.05
WARM_UP_BYTES = 100_000_000
# A soak of a few minutes sees rekeys only when they come sooner than WireGuard's two minutes.
SHORT_MINUTES = 10
SHORT_REKEY_S = 15
_BEAT = (sys.executable, "-I", str(ROOT / "lab" / "traffic" / "generator.py"), "beat")


class Life:
    """One daemon from its start to its end: memory over time, open files at both ends."""

    def __init__(self, node, seconds):
        self.node, self.process = node, node.process
        self.settled = SETTLED_S if seconds > 2 * SETTLED_S else seconds / 6
        self.born = time.monotonic()
        self.samples = []
        self.first_files = self.last_files = None

    def look(self):
        """Notes memory and files, once it has settled, so that what is opened at the start counts."""
        age = time.monotonic() - self.born
        if age >= self.settled:
            self._note(age)

    def end(self):
        """The last look; of a life that ends before it has settled, the only one."""
        self._note(time.monotonic() - self.born)
        self.last_files = files(self.process)

    def _note(self, age):
        self.samples.append((age, self.process.rss_kib()))
        if self.first_files is None:
            self.first_files = files(self.process)

    def growth(self):
        """KiB by which the line through the samples rises, and how many are allowed."""
        ages = [age for age, _ in self.samples]
        span = ages[-1] - ages[0]
        allowed = SHORT_GROWTH_KIB if span < SHORT_SPAN_S else GROWTH_KIB * max(1.0, span / GROWTH_SPAN_S)
        return slope(self.samples) * span, allowed

    def checks(self):
        grown, allowed = self.growth()
        minutes = (self.samples[-1][0] - self.samples[0][0]) / 60
        last = f"{self.samples[0][1]} to {self.samples[-1][1]} KiB in {minutes:.1f} minutes"
        yield f"memory of {self.node.name} stays", grown <= allowed, f"{last}, {grown:+.0f} KiB by its trend, {allowed:.0f} allowed"
        kept = self.last_files <= self.first_files
        yield f"open files of {self.node.name} stay", kept, f"{self.first_files} then {self.last_files}"


class Beat:
    """Ten pings a second from one node to another, from the first to the last moment."""

    def __init__(self, source, target):
        self.name = f"{source.name} to {target.name}"
        self._process = source.host.start(*_BEAT, target.ipv4, "--interval", 1 / PINGS_PER_S, name=f"beat-{target.name}")

    def finish(self, pauses):
        """(what, held, seen): how long no answer came, apart from the pauses."""
        self._process.close_input()
        self._process.wait()
        result = json.loads(self._process.output().splitlines()[-1])
        asked = sorted([*result["asked"], *result["unanswered"]])
        silent = longest_gap(result["answered"], result["began"], result["ended"], [*pauses, *standstills(asked)])
        seen = f"{silent:.1f} s at the longest; {len(result['answered'])} of {result['sent']} answered"
        return f"{self.name} is never silent for {GAP_S:g} s", result["sent"] > 0 and silent <= GAP_S, seen


def files(process):
    """How many files a process has open, without those that it is about to close."""
    fewest = len(os.listdir(f"/proc/{process.pid}/fd"))
    for _ in range(_LOOKS - 1):
        time.sleep(_LOOK_PAUSE_S)
        fewest = min(fewest, len(os.listdir(f"/proc/{process.pid}/fd")))
    return fewest


def slope(points):
    """Of the straight line nearest to these points, by least squares."""
    count = len(points)
    x_mean, y_mean = (sum(values) / count for values in zip(*points, strict=True))
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def standstills(asked):
    """The times, as (since, until), in which nobody asked although it was time to: who asks every tenth of a second did not run."""
    return [(before, after) for before, after in itertools.pairwise(asked) if after - before > _LATE_S]


def longest_gap(answered, began, ended, pauses):
    """The longest time between two neighbours of `answered`, and from `began` and to `ended`, without what lies inside the pauses."""
    longest = 0.0
    for start, end in itertools.pairwise([began, *answered, ended]):
        for since, until in sorted(pauses):
            if since < end and until > start:
                longest, start = max(longest, since - start), max(start, until)
        longest = max(longest, end - start)
    return longest


class Soak:
    """The network while it is in use."""

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

    def run(self, say):
        """Uses the network until the time is over; returns [(what, held, seen)]."""
        pairs = list(itertools.permutations(self.net.nodes, 2))
        beats = {pair: Beat(*pair) for pair in pairs}
        start, said = time.monotonic(), 0.0
        # Spread over the middle, so that a life is long before and after its restart.
        due = [(start + self.seconds * (number + 2) / 6, node) for number, node in enumerate(self.net.nodes)]
        while (now := time.monotonic()) < start + self.seconds or due:
            if due and now >= due[0][0]:
                self.restart(due.pop(0)[1])
            self.flow()
            self.look()
            if now - said >= min(30.0, self.seconds / 12):
                said = now
                say(self.line(now - start))
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
        """Fills a node's buffers once, in both directions and at once, so that what is touched later counts as growth."""
        others = [other for other in self.net.nodes if other is not node]
        pairs = [pair for other in others for pair in ((node, other), (other, node))]
        flows = [Transfer(source.host, target.host, target.ipv4, size=WARM_UP_BYTES) for source, target in pairs]
        self.broken += [result for result in (flow.finish() for flow in flows) if not result["equal"]]

    def flow(self):
        """One or two transfers at once between whomever, slow or as fast as they go."""
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
        """Ends a daemon, politely or by a kill, and waits until all hear it again: that pause is nobody's fault."""
        others = [other for other in self.net.nodes if other is not node]
        self.lives[node].end()
        self.ended.append(self.lives[node])
        since = time.monotonic()
        node.restart(kill=self.random.random() < 0.5)
        node.wait_for_peers(*(other.name for other in others))
        for other in others:
            node.reach(other.name)
            other.reach(node.name)
        self.pauses[node].append((since, time.monotonic()))
        self.warm(node)
        self.lives[node] = Life(node, self.seconds / 3)
        self._ages.clear()

    def line(self, passed):
        memory = ", ".join(f"{life.process.rss_kib()} KiB" for life in self.lives.values())
        restarts = f"{len(self.ended)} restarts"
        return f"minute {passed / 60:.1f}: {memory}; {self.flows} flows, {self.bytes / 1e9:.1f} GB; {self.rekeys} rekeys; {restarts}"


def soak(lab, minutes=MINUTES, seed=SEED, say=print):
    """Uses a network for that long; returns [(what, held, seen)]."""
    return Soak(lab, minutes, seed).run(say)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long (default {MINUTES:g})")
    parser.add_argument("--seed", type=int, default=SEED, help="chooses the flows")
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
