"""The measurements of `make paths`: each lays out its own small internet, makes the runs, and yields lines of the table."""

import itertools
import statistics
import time

from ..hosts.profiles import Profile
from ..hosts.wait import wait_until
from ..nodes.local_api import LocalApi
from ..nodes.world import World
from ..traffic.flow import Ping, PingStream, ping
from .path_rows import Row, both_direct, iperf, is_uneven, missing, probes, recovery, reordered

# Pause between two changes, in seconds.
CALM_S = 1.0
# Link to the servers and to all other homes for measurements of round trips.
TEN_MS = Profile("ten", "10 ms there and back", "", {"right": "delay 5ms", "left": "delay 5ms"})


def cold(lab, runs):
    """Every pair of several nodes without a session: the first answer, and the time until the path is direct. Both sides are behind port-restricted
    NATs."""
    count = next(count for count in itertools.count(2) if count * (count - 1) // 2 >= runs)
    world = World(lab, ["port-restricted"] * count)
    first, direct = [], []
    for one, two in itertools.combinations(world.nodes, 2):
        with LocalApi(one) as api:
            pings = Ping(one.host, two.ipv4, count=100, interval=0.01)
            moment = api.wait_for_path(two.name, "direct", pause=0.001)
            record = pings.finish()
        first.append(record["first_ms"])
        direct.append(1000 * max(0.0, moment - record["began"]))
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
        record = beat.finish()
    gaps = [recovery(record, moment) for moment in broken]
    back = [1000 * (end - start) for start, end in mended]
    lost = sum(missing(record, start, end + CALM_S / 2) for start, end in mended)
    swapped = sum(reordered(record, start, end + CALM_S / 2) for start, end in mended)
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
        record = beat.finish()
    gaps = [recovery(record, moment) for moment in moments]
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
            with LocalApi(one) as api:
                api.wait_for_path(two.name, "relayed")
                # Packets need a session that both nodes have. A restarted node does not have the session that its peer made before.
                wait_until(lambda: one.ping(two.name, "-c", "1", "--timeout", "1s", check=False), "an answer by the relay")
                time.sleep(2 * CALM_S)
                used = world.using(one, two)
                moments.append(time.monotonic())
                used.kill()
                deadline = time.monotonic() + 30
                while api.peer(two.name)["path"]["relay"] == used.host.name and time.monotonic() < deadline:
                    time.sleep(0.01)
            time.sleep(CALM_S)
            used.start()
        record = beat.finish()
    gaps = [recovery(record, moment) for moment in moments]
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
            with LocalApi(one) as api:
                api.wait_for_path(two.name, "direct")
            time.sleep(CALM_S)
        record = beat.finish()
    gaps = [recovery(record, moment) for moment in moments]
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
    apis = [LocalApi(one) for one, _ in pairs]
    for api, (_, two) in zip(apis, pairs, strict=True):
        api.wait_for_path(two.name, "direct")
    time.sleep(75)
    before = [probes(api, two) for api, (_, two) in zip(apis, pairs, strict=True)]
    time.sleep(seconds)
    for api, (_, two), was in zip(apis, pairs, before, strict=True):
        now = probes(api, two)
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
