"""The measurements of `make routes`: each lays out its own hosts, makes the runs, and yields rows."""

import json
import statistics
import sys
import time

from ..hosts.wait import LabError, wait_until
from ..nodes.subnets import Subnets, seen_as
from ..traffic.flow import PingStream, answers
from .path_rows import IPERF_S, Row, recovery

# The limits of the table.
TAKES_OVER_MS = 2_000
SHARE_PERCENT = 60
# Interval of the attempts to connect, in seconds, and the time after which one is given up: far less than the connection would take that waits for a repeated SYN.
CONNECT_S = 0.02
GIVE_UP_S = 0.5
# Opens a connection at even intervals; prints when each open one was begun, when it was open, and the client's address as the service saw it.
_CONNECT = (
    "import select,socket,sys,time\n"
    "to,every,patience=(sys.argv[1],int(sys.argv[2])),float(sys.argv[3]),float(sys.argv[4]); open_={}; due=time.monotonic(); print('ready',flush=True)\n"
    "while True:\n"
    " now=time.monotonic()\n"
    " if now>=due:\n"
    "  due=now+every; s=socket.socket(); s.setblocking(False); s.connect_ex(to); open_[s]=now\n"
    " for s in [s for s,at in open_.items() if now-at>patience]: s.close(); del open_[s]\n"
    " for s in select.select(list(open_),[],[],max(0,due-time.monotonic()))[0]:\n"
    "  at=open_.pop(s)\n"
    "  try: seen=s.recv(99).decode()\n"
    "  except OSError: seen=''\n"
    "  s.close()\n"
    "  if seen: print(repr(at),repr(time.monotonic()),seen.split()[0],flush=True)\n"
)
SERVICE_PORT = 7070


def two_routers(lab, *options):
    """Lays out a client, and two routers of one network that advertise it. Returns the layout, the prefix and the plain host."""
    net = Subnets(lab, sites=2, shared=True)
    prefix, plain = net.prefixes()[0], net.hosts[0]
    for site, router in enumerate(net.routers):
        net.start_router(site, *options)
        net.approve(router, prefix)
    net.start(net.client, options=("--accept-routes",))
    net.wait_for_route(net.client, prefix, net.routers[0])
    way_back(plain, net.routers[0])
    wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the plain host to answer")
    return net, prefix, plain


def way_back(plain, router):
    """Sends what a plain host answers to members through this router, as VRRP or a routing protocol does."""
    plain.ip(f"route replace 100.64.0.0/10 via {router.host.addresses[2]}")


def cut_off(lab, runs, options, measure):
    """Cuts off the first router of a network made for it; returns what `measure` tells of each time. In one network the second failure is another thing: a router that has just failed has to
    prove itself first."""
    figures = []
    for _ in range(runs):
        with lab() as made:
            net, prefix, plain = two_routers(made, *options)
            first, second = net.routers
            # Both are known to be well, as after hours of operation.
            wait_until(lambda router=second: answers(net.client.host, router.ipv4, 1), "the other router to answer")
            figures.append(measure(net, prefix, plain, first, second))
    return figures


def new_connections(lab, runs):
    """Measures the time from a router's cut cable to the first connection that is open through the other one. The routers mask addresses."""

    def measure(net, _prefix, plain, first, second):
        client = net.client.host.start(sys.executable, "-I", "-c", _CONNECT, plain.ipv4, SERVICE_PORT, CONNECT_S, GIVE_UP_S, name="connect")
        client.wait_for_output("ready")
        moment = time.monotonic()
        first.host.ip("link set eth0 down")
        through = str(second.host.addresses[2])
        lines = lambda: (line.split() for line in client.output().splitlines() if line.count(" ") == 2)
        opened = lambda: [float(at) for began, at, seen in lines() if seen == through and float(began) > moment]
        return 1000 * (min(wait_until(opened, "a connection through the other router")) - moment)

    yield Row("new", TAKES_OVER_MS, cut_off(lab, runs, (), measure))


def existing_connections(lab, runs):
    """Measures the time from a router's cut cable to the next answer to a stream of pings. The routers mask nothing, and the plain host's way back changes at once."""

    def measure(net, prefix, plain, first, second):
        with PingStream(net.client.host, plain.ipv4) as stream:
            time.sleep(0.5)
            moment = time.monotonic()
            first.host.ip("link set eth0 down")
            way_back(plain, second)
            net.wait_for_route(net.client, prefix, second)
            time.sleep(0.5)
            return recovery(stream.finish(), moment)

    yield Row("existing", TAKES_OVER_MS, cut_off(lab, runs, ("--snat", "off"), measure))


def stream(client, server, address):
    """Returns Mbit/s of one TCP stream to an address of `server`."""
    listening = server.start("iperf3", "-s", "-1", "--forceflush", name="iperf3-server")
    listening.wait_for_output("Server listening")
    done = client.run("iperf3", "-c", address, "-t", IPERF_S, "-O", 1, "-J")
    listening.wait()
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6


def forwarded(lab, runs):
    """Measures the throughput of one TCP stream to a host behind a router, each between two runs to the router itself."""
    with lab() as made:
        net = Subnets(made)
        router, plain = net.start_router(), net.hosts[0]
        net.start(net.client, options=("--accept-routes",))
        net.approve(router, net.prefixes()[0])
        net.wait_for_route(net.client, net.prefixes()[0], router)
        net.client.ping_until_direct(router.name)
        client, shares = net.client.host, []
        for _ in range(runs):
            before = stream(client, router.host, router.ipv4)
            behind = stream(client, plain, plain.ipv4)
            shares.append(100 * behind / statistics.mean([before, stream(client, router.host, router.ipv4)]))
        yield Row("forwarded", SHARE_PERCENT, shares, unit="%", by_median=True)


def left(lab, runs):
    """Counts the lines of a host's configuration that differ after a router was there: after `down`, after SIGTERM, and after SIGKILL with the next start and `down`."""
    with lab() as made:
        net = Subnets(made)
        router, routes = net.routers[0], net.prefixes()[0]
        state = lambda: {*router.host.network_state(), *router.host.hidden_state()}
        before, differences = state(), []
        for number in range(runs):
            router.start("--advertise-routes", routes)
            router.up(net.coordinator.join_token if number == 0 else None)
            if number == 0:
                net.approve(router, routes)
            wait_until(lambda: "masquerade" in router.host.run("nft", "list", "ruleset").stdout, "the router to have its rules")
            end(router, ("down", "stop", "kill")[number % 3])
            differences.append(difference(state, before))
        yield Row("left", 0, differences, unit="lines")


def end(router, how):
    """Ends a router's daemon in one of three ways."""
    if how == "kill":
        router.kill()
        # What SIGKILL leaves, the next start removes, whatever it is started for.
        router.start()
        router.up()
    if how != "stop":
        router.taut("down")
    router.stop()


def difference(state, before):
    """Returns the number of lines that differ from before. The kernel may need a moment to remove a device."""
    try:
        wait_until(lambda: state() == before, "the host to be as before")
    except LabError:
        return len(state() ^ before)
    return 0


MEASURED = {"new": new_connections, "existing": existing_connections, "forwarded": forwarded, "left": left}
