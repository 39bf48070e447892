"""The measurements of `make policy`: each lays out its own hosts, makes the runs, and yields rows."""

import json
import statistics
import sys
import time

from ..hosts.wait import wait_until
from ..nodes.mesh import build
from .path_rows import Row, iperf

# Rules beside the one that the stream needs: as many as a large company's policy gives one server.
RULES = 1000
# Time in which a forbidden datagram would arrive after the last one, in seconds: several times the interval of the stream.
QUIET_S = 0.3
# Sends a datagram every 2 ms, with the time in it; prints the time when each arrived. Both ends have the clock of one machine.
SEND = (
    "import socket,struct,sys,time\n"
    "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); to=(sys.argv[1],int(sys.argv[2]))\n"
    "while True:\n"
    # Without a rule there is no peer and no route.
    " try: s.sendto(struct.pack('!d',time.monotonic()),to)\n"
    " except OSError: pass\n"
    " time.sleep(0.002)\n"
)
RECEIVE = (
    "import socket,sys,time\n"
    "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind((sys.argv[1],int(sys.argv[2]))); print('ready',flush=True)\n"
    "last=0\n"
    "while True:\n"
    " s.recv(99); now=time.monotonic()\n"
    " if now-last>0.001: print(repr(now),flush=True); last=now\n"
)
PORT = 7777
OPEN = {"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}
CLOSED = {"acls": []}


def put(net, folder, policy):
    """Applies a policy; returns the moment of the coordinator's answer."""
    path = folder / "policy.hujson"
    path.write_text(json.dumps(policy))
    net.coordinator.cli("policy", "apply", str(path))
    return time.monotonic()


def arrivals(receiver):
    """Returns the moments at which datagrams arrived so far."""
    return [float(line) for line in receiver.output().splitlines() if line[:1].isdigit()]


def last_forbidden(net, receiver, forbid, allow):
    """Forbids the stream; returns the milliseconds from the answer to the last datagram that arrived, 0 if none did. Allows it again."""
    answered = forbid()
    while time.monotonic() < max([answered, *arrivals(receiver)[-1:]]) + QUIET_S:
        time.sleep(0.05)
    late = [moment for moment in arrivals(receiver) if moment > answered]
    before = len(arrivals(receiver))
    allow()
    while len(arrivals(receiver)) < before + 20:
        time.sleep(0.01)
    return 1000 * (max(late, default=answered) - answered)


def revocation(lab, runs):
    """Measures the time from the coordinator's answer to the last forbidden packet at a peer, for a change of the policy and for a disabled device."""
    with lab() as made:
        net = build(made, nodes=3, ipv6=False)
        one, two, _ = net.nodes
        one.ping_until_direct(two.name)
        receiver = two.host.start(sys.executable, "-I", "-c", RECEIVE, two.ipv4, PORT, name="receiver")
        receiver.wait_for_output("ready")
        one.host.start(sys.executable, "-I", "-c", SEND, two.ipv4, PORT, name="sender")
        folder = net.coordinator.host.state

        def turn(verb):
            net.coordinator.cli("devices", verb, one.name)
            return time.monotonic()

        by_policy = lambda: put(net, folder, CLOSED)
        times = [last_forbidden(net, receiver, by_policy, lambda: put(net, folder, OPEN)) for _ in range(runs)]
        yield Row("policy", 2000, times)
        times = [last_forbidden(net, receiver, lambda: turn("disable"), lambda: turn("enable")) for _ in range(runs)]
        yield Row("disabled", 2000, times)


def many_rules():
    """Returns a policy of many rules that all concern the peer, the last of which a stream needs. Each names a subnet of its own, too, so that no two can become one."""
    rule = lambda n, port: {"action": "accept", "src": ["100.64.0.0/10", f"10.{n // 250}.{n % 250}.0/24"], "dst": [f"*:{port}"]}
    return {"acls": [*(rule(n, 2000 + n) for n in range(RULES - 1)), rule(RULES - 1, 5201)]}


def put_many(net, folder):
    """Applies the policy of many rules, and waits until each node says that it has them."""
    put(net, folder, many_rules())
    has = lambda node: f"event=filter-changed rules={RULES}" in node.taut("log").stdout.splitlines()[-1]
    wait_until(lambda: all(has(node) for node in net.nodes), f"a filter of {RULES} rules at both nodes")


def throughput(lab, runs):
    """Measures the throughput of one TCP stream, in turn with many rules at both ends and with one rule that allows everything."""
    with lab() as made:
        net = build(made, nodes=2, ipv6=False)
        one, two = net.nodes
        one.ping_until_direct(two.name)
        folder, shares = net.coordinator.host.state, []
        for _ in range(runs):
            put(net, folder, OPEN)
            time.sleep(0.5)
            before = iperf(one, two)
            put_many(net, folder)
            time.sleep(0.5)
            with_rules = iperf(one, two)
            put(net, folder, OPEN)
            time.sleep(0.5)
            shares.append(100 * with_rules / statistics.mean([before, iperf(one, two)]))
        yield Row("throughput", 95, shares, unit="%", by_median=True)


MEASURED = {"revocation": revocation, "throughput": throughput}
SEVERAL = {"revocation": ["policy", "disabled"]}
