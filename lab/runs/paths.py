"""`make paths`: how soon a path is available, and what happens when it fails, measured with real daemons behind the NATs of the lab.

    python3 -m lab.runs.paths [--runs N] [--only NAME,…] [--document docs/paths.md]

Each measurement lays out its own small internet (lab/hosts/nats), makes at least 20 runs, and reports their median and maximum. Writes
target/lab/paths.json, and with --document its half of the table of that page (lab/runs/paths_table.py). Failures are reported in the table.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from dataclasses import dataclass

from ..hosts.net import Lab
from ..hosts.profiles import Profile
from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until
from ..measure import machine
from ..nodes.local_api import LocalApi
from ..nodes.world import World
from ..traffic.flow import PingStream, Ping, ping
from . import command, paths_table

OUT = ROOT / "target" / "lab" / "paths.json"
RUNS = 20
# Pause between two changes, in seconds.
CALM_S = 1.0
# Longest delay until a change by a command has effect, in seconds.
TAKES_EFFECT_S = 0.5
# Link to the servers and to all other homes for measurements of round trips.
TEN_MS = Profile("ten", "10 ms there and back", "", {"right": "delay 5ms", "left": "delay 5ms"})
IPERF_S = 2
# Largest difference of two equal runs around a third one, as a share of the faster one. A larger difference means that the machine was disturbed.
UNEVEN = 0.25


@dataclass
class Row:
    """A line of the table: name, unit and target of a measurement; without a target there is no verdict."""

    name: str
    limit: float
    values: list
    unit: str = "ms"
    note: str = ""
    problem: str = ""
    # False after a loss or reordering that is not allowed.
    whole: bool = True

    def cells(self):
        """Returns median, maximum, and whether the target was reached."""
        if not self.values:
            return [f"not measured: {self.problem or 'nothing was seen'}", "–", "no"]
        worst = min(self.values) if self.unit == "%" else max(self.values)
        reached = self.limit is None or (worst >= self.limit if self.unit == "%" else worst <= self.limit)
        verdict = ("yes" if reached and self.whole else "no") if self.limit is not None else "–"
        note = f"; {self.note}" if self.note else ""
        return [f"{statistics.median(self.values):.1f} {self.unit}", f"{worst:.1f} {self.unit} ({len(self.values)} runs){note}", verdict]


def cold(lab, runs):
    """Every pair of several nodes without a session: the first answer, and the time until the path is direct. Both sides are behind port-restricted
    NATs."""
    count = next(count for count in itertools.count(2) if count * (count - 1) // 2 >= runs)
    world = World(lab, ["port-restricted"] * count)
    first, direct = [], []
    for one, two in itertools.combinations(world.nodes, 2):
        with LocalApi(one) as sight:
            pings = Ping(one.host, two.ipv4, count=100, interval=0.01)
            moment = sight.wait_for_path(two.name, "direct", pause=0.001)
            told = pings.finish()
        first.append(told["first_ms"])
        direct.append(1000 * max(0.0, moment - told["began"]))
    lag = ping(world.nodes[0].host, world.servers[1].ipv4, count=20)["ms"]
    note = f"a round trip to the relay takes {statistics.median(lag):.1f} ms"
    yield Row("cold", 50 + 2 * max(lag), first, note=note)
    yield Row("direct", 1000, direct)


def dies(lab, runs):
    """A direct path that carries packets becomes a black hole, and recovers. Each run starts new daemons: a path that fails again within two minutes is taken back with growing delays, on
    purpose.
    """
    world = World(lab, ["port-restricted", "port-restricted"])
    one, two = world.nodes
    one.ping_until_direct(two.name)
    broken, mended = [], []
    with PingStream(one.host, two.ipv4) as beat:
        for _ in range(runs):
            for node in world.nodes:
                node.restart()
            with LocalApi(one) as here, LocalApi(two) as there:
                both_direct(here, there, two, one)
                time.sleep(CALM_S)
                broken.append(time.monotonic())
                two.host.nat.black_hole()
                here.wait_for_path(two.name, "relayed")
                there.wait_for_path(one.name, "relayed")
                time.sleep(CALM_S)
                start = time.monotonic()
                two.host.nat.restore()
                mended.append((start, both_direct(here, there, two, one)))
                time.sleep(CALM_S)
        told = beat.finish()
    gaps = [recovery(told, moment) for moment in broken]
    back = [1000 * (end - start) for start, end in mended]
    lost = sum(missing(told, start, end + CALM_S / 2) for start, end in mended)
    swapped = sum(reordered(told, start, end + CALM_S / 2) for start, end in mended)
    yield Row("dies", 1000, gaps)
    note = f"{lost} packets lost, {swapped} reordered"
    yield Row("back", 5000, back, note=note, whole=lost == 0 and swapped == 0)


def moves(lab, runs):
    """The address of a host changes under traffic."""
    world = World(lab, ["port-restricted", "port-restricted"])
    one, two = world.nodes
    one.ping_until_direct(two.name)
    here, there = "192.168.1.101", "192.168.1.102"
    gateway, moments = one.host.home.gateway[0], []
    own = one.host.ipv4
    with PingStream(one.host, two.ipv4) as beat:
        for _ in range(runs):
            time.sleep(2 * CALM_S)
            moments.append(time.monotonic())
            one.host.ip(f"address del {own}/24 dev eth0", f"address add {there}/24 dev eth0", f"route replace default via {gateway}")
            own, here, there = there, there, here
        time.sleep(2 * CALM_S)
        told = beat.finish()
    gaps = [recovery(told, moment) for moment in moments]
    yield Row("moves", 300, gaps)


def relay_dies(lab, runs):
    """The relay that carries is killed; another one is available."""
    world = World(lab, ["symmetric", "symmetric"], relays=2)
    one, two = world.nodes
    moments = []
    with PingStream(one.host, two.ipv4) as beat:
        for _ in range(runs):
            # New daemons, so that both know both relays: a daemon does not know a relay that returned unnoticed.
            for node in world.nodes:
                node.restart()
            for node in world.nodes:
                world.serve(node)
            with LocalApi(one) as sight:
                sight.wait_for_path(two.name, "relayed")
                # Through a session that both have: a restarted node does not know the session that the other made meanwhile.
                wait_until(lambda: one.ping(two.name, "-c", "1", "--timeout", "1s", check=False), "an answer by the relay")
                time.sleep(2 * CALM_S)
                used = world.using(one, two)
                moments.append(time.monotonic())
                used.kill()
                deadline = time.monotonic() + 30
                while sight.peer(two.name)["path"]["relay"] == used.host.name and time.monotonic() < deadline:
                    time.sleep(0.01)
            time.sleep(CALM_S)
            used.start()
        told = beat.finish()
    gaps = [recovery(told, moment) for moment in moments]
    yield Row("relay-dies", 2000, gaps)


def reboots(lab, runs):
    """Both daemons are killed and started while the coordinator is away."""
    world = World(lab, ["port-restricted", "port-restricted"])
    one, two = world.nodes
    one.ping_until_direct(two.name)
    world.coordinator.kill()
    moments = []
    with PingStream(one.host, two.ipv4, interval=0.02) as beat:
        for _ in range(runs):
            for node in world.nodes:
                node.kill()
            moments.append(time.monotonic())
            for node in world.nodes:
                node.start()
            with LocalApi(one) as sight:
                sight.wait_for_path(two.name, "direct")
            time.sleep(CALM_S)
        told = beat.finish()
    gaps = [recovery(told, moment) for moment in moments]
    yield Row("reboots", 5000, gaps)


def throughput(lab, runs):
    """TCP through the relay and directly, in turns, on this machine. The default limit of a relay is 1 Gbit/s per node; here it has none.

    A relayed run is compared with the direct runs before and after it. If these two differ much, other programs used the machine: the run does not count, is
    reported, and is repeated, a limited number of times.
    """
    world = World(lab, ["symmetric", "symmetric", "port-restricted", "port-restricted"])
    for relay in world.relays:
        relay.stop()
        relay.start("--rate", "100G")
    for node in world.nodes:
        node.restart()
        world.serve(node)
    far, near = world.nodes[:2], world.nodes[2:]
    near[0].ping_until_direct(near[1].name)
    far[0].ping(far[1].name, "-c", "2")
    shares, by_relay, straight, uneven = [], [], [], 0
    after = iperf(*near)
    while len(shares) < runs and uneven < 2 * runs:
        before, relayed, after = after, iperf(*far), iperf(*near)
        if is_uneven(before, after):
            uneven += 1
            continue
        by_relay.append(relayed)
        straight.append((before + after) / 2)
        shares.append(100 * relayed / straight[-1])
    if not shares:
        yield Row("throughput", 40, [], unit="%", problem=f"others had the machine in all of {uneven} runs")
        return
    note = f"{statistics.median(by_relay):.0f} Mbit/s of {statistics.median(straight):.0f}; {uneven} more left out, others had the machine"
    yield Row("throughput", 40, shares, unit="%", note=note)


def control(lab, runs):
    """Probes while packets flow and nothing changes."""
    del runs
    world = World(lab, ["port-restricted"] * 4)
    rates, seconds = [], 60
    nodes = world.nodes
    pairs = list(itertools.combinations(nodes, 2))
    beats = [PingStream(one.host, two.ipv4, interval=0.1) for one, two in pairs]
    sights = [LocalApi(one) for one, _ in pairs]
    for sight, (_, two) in zip(sights, pairs, strict=True):
        sight.wait_for_path(two.name, "direct")
    time.sleep(75)
    before = [probes(sight, two) for sight, (_, two) in zip(sights, pairs, strict=True)]
    time.sleep(seconds)
    for sight, (_, two), was in zip(sights, pairs, before, strict=True):
        now = probes(sight, two)
        rates += [10 * (now[way] - was.get(way, 0)) / seconds for way in now]
    for beat in beats:
        beat.finish()
    note = "a path each; a minute, after the first minute"
    yield Row("control", 1, rates, unit="per 10 s", note=note)


def latency(lab, runs):
    """Latency that direct and relayed paths add to a link of 10 ms."""
    world = World(lab, ["open", "open"], link=TEN_MS)
    one, two = world.nodes
    one.ping_until_direct(two.name)
    raw, direct, relayed = [], [], []
    for _ in range(runs):
        raw.append(statistics.median(ping(one.host, two.host.ipv4, count=10, interval=0.02)["ms"]))
        direct.append(statistics.median(ping(one.host, two.ipv4, count=10, interval=0.02)["ms"]))
    two.host.nat.black_hole()
    with LocalApi(one) as here, LocalApi(two) as there:
        for _ in range(50):
            ping(one.host, two.ipv4, count=5, interval=0.02)
            if here.path(two.name) == there.path(one.name) == "relayed":
                break
    way = [statistics.median(ping(host, world.servers[1].ipv4, count=10, interval=0.02)["ms"]) for host in (one.host, two.host)]
    for _ in range(runs):
        relayed.append(statistics.median(ping(one.host, two.ipv4, count=10, interval=0.02)["ms"]))
    base = statistics.median(raw)
    yield Row("latency-direct", None, [value - base for value in direct])
    yield Row("latency-relayed", None, [value - sum(way) for value in relayed])


MEASURED = {
    "cold": cold,
    "dies": dies,
    "moves": moves,
    "relay-dies": relay_dies,
    "reboots": reboots,
    "throughput": throughput,
    "control": control,
    "latency": latency,
}

# Measurements with more than one line of the table.
SEVERAL = {"cold": ["cold", "direct"], "dies": ["dies", "back"], "latency": ["latency-direct", "latency-relayed"]}


def both_direct(here, there, two, one):
    """Returns the time when both sides have a direct path."""
    return max(here.wait_for_path(two.name, "direct"), there.wait_for_path(one.name, "direct"))


def recovery(told, moment):
    """Returns milliseconds from a moment to the first answer to a later request: after the first loss, if there is one soon. Requests sent while the command that
    breaks something still runs may be answered and do not count.
    """
    lost = [asked for asked in told["unanswered"] if moment <= asked < moment + TAKES_EFFECT_S]
    since = min(lost, default=moment)
    arrived = [answer for answer, asked in zip(told["answered"], told["asked"], strict=True) if asked >= since]
    if not arrived:
        raise LabError("nothing was answered any more")
    return 1000 * (min(arrived) - moment)


def missing(told, start, end):
    """Counts requests between two moments that were never answered."""
    return sum(start <= moment <= end for moment in told["unanswered"])


def reordered(told, start, end):
    """Counts answers between two moments that came after the answer to a later request."""
    asked = [sent for arrived, sent in zip(told["answered"], told["asked"], strict=True) if start <= arrived <= end]
    return sum(later < earlier for earlier, later in itertools.pairwise(asked))


def probes(sight, peer):
    """Returns the probes sent to a peer so far, by path."""
    return {way["endpoint"]: way["sent"] for way in sight.ask("why", peer=peer.name)["ways"]}


def iperf(one, two):
    """Returns Mbit/s of one TCP stream over the overlay."""
    server = two.host.start("iperf3", "-s", "-1", "--forceflush", name="iperf3-server")
    server.wait_for_output("Server listening")
    done = one.host.run("iperf3", "-c", two.ipv4, "-t", IPERF_S, "-O", 1, "-J")
    server.wait()
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6


def is_uneven(before, after):
    """Returns true if the machine was much faster or slower before than after."""
    return abs(before - after) > UNEVEN * max(before, after)


def measure(names, runs):
    """Yields all rows; a failed measurement is a row that says so."""
    for name in names:
        print(f"paths: {name}", flush=True)
        try:
            with Lab(ROOT / "target" / "lab" / f"paths-{name}") as lab:
                rows = list(MEASURED[name](lab, runs))
        except LabError as error:
            rows = [Row(line, None, [], problem=str(error).splitlines()[0]) for line in SEVERAL.get(name, [name])]
        for row in rows:
            print(f"paths: {row.name}: {', '.join(row.cells())}", flush=True)
            yield row


def made(runs):
    """Describes how this half of the table was made."""
    facts = machine.facts()
    where = f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}"
    return f"made {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())} on {where}; {runs} runs or more each."


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.paths", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default=",".join(MEASURED), help=f"measurements: {', '.join(MEASURED)}")
    parser.add_argument("--document", help="fill the table of this page")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in MEASURED]:
        parser.error(f"there is no measurement {unknown[0]}")
    return command.run("paths", ["iperf3", "nft"], lambda: tell(names, args))


def tell(names, args):
    """Measures, writes the results, and fills the page."""
    rows = list(measure(names, args.runs))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"schema": 1, "runs": args.runs, "rows": [vars(row) for row in rows]}, indent=1) + "\n")
    if args.document:
        paths_table.fill(ROOT / args.document, paths_table.LAB, made(args.runs), {row.name: row.cells() for row in rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
