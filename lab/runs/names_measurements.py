"""The measurements of `make names`: each lays out its own hosts, makes the runs, and yields rows."""

import json
import statistics
import sys

from ..hosts.wait import wait_until
from ..measure.quantile import quantile
from ..nodes.subnets import Subnets
from ..traffic import public_names, questions
from .path_rows import Row

# The limit of the table, and the questions of a run.
ANSWER_MS = 2
QUESTIONS = 100
STUB = "100.64.0.0"
# Asks for names below a domain at even intervals, and waits for no answer.
_ASK_ON = (
    "import socket,struct,sys,time\n"
    "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); print('ready',flush=True)\n"
    "for number in range(10**9):\n"
    " labels=b''.join(bytes([len(l)])+l for l in [b'n%d'%number,*sys.argv[2].encode().split(b'.')])\n"
    " s.sendto(struct.pack('!6H',number&0xffff,0x100,1,0,0,0)+labels+b'\\0'+struct.pack('!2H',1,1),(sys.argv[1],53)); time.sleep(float(sys.argv[3]))\n"
)
DEAD_S = 0.02


def office(lab):
    """Lays out a client with a split domain whose server is behind a router, and one whose server is dead."""
    net = Subnets(lab)
    router, prefix, plain = net.start_router(), net.prefixes()[0], net.hosts[0]
    net.start(net.client, options=("--accept-routes",))
    net.approve(router, prefix)
    net.wait_for_route(net.client, prefix, router)
    server = plain.start(sys.executable, "-I", public_names.__file__, str(plain.ipv4), "11.1.0.66", name="names")
    server.wait_for_output("ready")
    net.coordinator.cli("names", "set-domain", "corp.example", str(plain.ipv4))
    net.coordinator.cli("names", "set-domain", "dead.example", str(net.lans[0].subnets[0].network_address + 99))
    net.client.wait_for(lambda status: len(status["self"]["names"]["domains"]) == 2, "both domains")
    return net


def times(net, name, count=QUESTIONS):
    """Returns how long each of some questions to the stub took, in milliseconds."""
    asked = json.dumps([(name, "A")])
    done = net.client.host.run(sys.executable, "-I", questions.__file__, STUB, "--repeat", count, text=asked, timeout=120)
    return [ms if ms is not None else float("inf") for ms in json.loads(done.stdout)]


def peer(lab, runs):
    """Measures answers for a peer's name."""
    with lab() as made:
        net = office(made)
        yield Row("peer", ANSWER_MS, [quantile(times(net, "router1.default.taut.internal"), 0.99) for _ in range(runs)], by_median=True)


def dead(lab, runs):
    """Measures the same while questions wait for a dead server."""
    with lab() as made:
        net = office(made)
        asking = net.client.host.start(sys.executable, "-I", "-c", _ASK_ON, STUB, "dead.example", DEAD_S, name="asking")
        asking.wait_for_output("ready")
        domains = lambda: {one["domain"]: one for one in net.client.status()["self"]["names"]["domains"]}
        wait_until(lambda: domains()["dead.example"]["troubles"], "the server to be known as dead")
        yield Row("dead", ANSWER_MS, [quantile(times(net, "router1.default.taut.internal"), 0.99) for _ in range(runs)], by_median=True)


def split(lab, runs):
    """Measures answers of a split domain's server."""
    with lab() as made:
        net = office(made)
        yield Row("split", None, [statistics.median(times(net, "www.corp.example")) for _ in range(runs)])


MEASURED = {"peer": peer, "dead": dead, "split": split}
