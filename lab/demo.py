"""The demo: three hosts join a network and exchange real traffic, and the figures are printed.

    python3 -m lab.demo         needs root, /dev/net/tun, iproute2, iperf3 and the release build
    HOLD=1 python3 -m lab.demo  leaves it running until Ctrl-C and says how to look around

Writes target/demo/result.json.
"""

import json
import os
import signal
import statistics
import sys
import time

from . import congestion, mesh, needs, report
from .flow import ping
from .net import Lab
from .taut import ROOT, binary
from .wait import PATIENCE_S, LabError

NODES = 3
SECONDS = int(os.environ.get("SECONDS_PER_RUN", "10"))
OUT = ROOT / "target" / "demo"
IPERF_PORT = 5201


def main():
    lacks = needs.missing("iperf3")
    for lack in lacks:
        print(f"demo: {lack}", file=sys.stderr)
    if lacks:
        return 1
    # As an interrupt, SIGTERM lets the lab take everything down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with congestion.allowed("cubic") as cubic, Lab(OUT / "logs") as lab:
            run(lab, cubic)
            print(f"written: {(OUT / 'result.json').relative_to(ROOT)}", flush=True)
            if os.environ.get("HOLD"):
                hold(lab)
    except LabError as error:
        print(f"demo: {error}\nAll logs are in {OUT / 'logs'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; everything is taken down", file=sys.stderr)
        return 130
    return 0


def run(lab, cubic):
    """The whole demo: prints the figures and writes them."""
    say(f"a coordinator and {NODES} hosts on one switch")
    net = mesh.lay_out(lab, NODES)
    net.coordinator.start()
    say(f"the coordinator listens at {net.coordinator.url}")
    net.join(*net.nodes)
    net.meet()
    for node in net.nodes:
        say(f"{node.name} has joined as {node.ipv4} and {node.ipv6}")
    first = net.nodes[0]
    first_packet = first_reply(first, net.nodes[1])
    net.connect()
    paths = {first.peer(other.name)["path"]["kind"] for other in net.nodes[1:]}
    say("every two nodes have a direct path")
    rtt = statistics.median(ping(first.host, net.nodes[1].ipv4, count=40)["ms"])
    idle = memory(net, "VmRSS")
    runs = [throughput(first, other, cubic) for other in net.nodes[1:]]
    result = {
        "schema": 1,
        "nodes": NODES,
        "path": "direct" if paths == {"direct"} else "mixed",
        "first_packet_ms": round(first_packet, 2),
        "rtt_ms": round(rtt, 3),
        "tcp": runs,
        "congestion_control": " and ".join(sorted({run["congestion_control"] for run in runs})),
        "node_rss_kib": memory(net, "VmRSS"),
        "node_rss_idle_kib": idle,
        "node_rss_peak_kib": memory(net, "VmHWM"),
        "node_binary_bytes": binary("taut").stat().st_size,
        "drops": {node.name: node.status()["drops"] for node in net.nodes},
    }
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{report.per_second(runs)}\n\n{report.summary(result)}\n", flush=True)


def first_reply(source, target):
    """Milliseconds from the first packet to a peer without a session to the first reply."""
    result = ping(source.host, target.ipv4, count=1000, interval=0.01, first=True)
    if not result["received"]:
        raise LabError(f"{source.name} gets no reply from {target.name}\n{source.process.tail()}")
    say(f"first packet {source.name} → {target.name}: reply after {result['first_ms']:.1f} ms")
    return result["first_ms"]


def memory(net, field):
    """The largest of the daemons in KiB."""
    return max(node.process.rss_kib(field) for node in net.nodes)


def throughput(source, target, cubic):
    """iperf3 over the overlay; progress from the interface's counters, figures from iperf3."""
    server = target.host.start("iperf3", "-s", "-1", "-p", IPERF_PORT, "--forceflush", name="iperf3-server")
    server.wait_for_output("Server listening")
    choice = ["-C", "cubic"] if cubic else []
    client = source.host.start(
        "iperf3", "-c", target.ipv4, "-p", IPERF_PORT, "-t", SECONDS, "-J", *choice, name=f"iperf3-to-{target.name}"
    )
    start, (_, sent) = time.monotonic(), source.host.counters()
    while client.alive and time.monotonic() - start < SECONDS + PATIENCE_S:
        time.sleep(1)
        done = time.monotonic() - start
        if done < SECONDS:
            megabytes = (source.host.counters()[1] - sent) / 1e6
            progress(f"iperf3 {source.name} → {target.name}: {done:.0f} of {SECONDS} s, {megabytes:.0f} MB sent")
    progress(None)
    if client.wait(PATIENCE_S) != 0:
        raise LabError(f"iperf3 from {source.name} to {target.name} failed\n{client.tail()}")
    server.stop()
    row = figures(json.loads(client.output()))
    say(f"{source.name} → {target.name}: {row['mbps']:.0f} Mbit/s, {row['retransmits']} retransmits")
    return {"from": source.name, "to": target.name, **row}


def figures(told):
    """What is kept of iperf3's own report. The rate is what the receiver got."""
    whole, end = told["end"]["streams"][0]["sender"], told["end"]
    seconds = [interval["streams"][0] for interval in told["intervals"]]
    return {
        "mbps": round(end["sum_received"]["bits_per_second"] / 1e6, 1),
        "retransmits": whole["retransmits"],
        "rtt_ms": whole["mean_rtt"] / 1000,
        "congestion_control": end.get("sender_tcp_congestion", "unknown"),
        "per_second": [
            {
                "mbps": round(one["bits_per_second"] / 1e6, 1),
                "retransmits": one["retransmits"],
                "rtt_ms": one["rtt"] / 1000,
            }
            for one in seconds
        ],
    }


def hold(lab):
    """Keeps everything running, and says what can be done with it."""
    node = lab.nodes["node1"]
    socket = node.state / "taut.sock"
    print(
        f"""The network keeps running until Ctrl-C. Look around from another terminal, in {ROOT}:
  python3 -m lab list                     the hosts and their namespaces
  python3 -m lab shell node1              a shell in node1
  ip netns exec {node.namespace} {binary("taut")} status --socket {socket}
  ip netns exec {node.namespace} {binary("taut")} ping node2 --socket {socket}
  ip netns exec {node.namespace} ip address
Logs: {lab.logs}""",
        flush=True,
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("taking everything down")


def say(text):
    print(f"demo: {text}", flush=True)


def progress(text):
    """A line that the next one overwrites, on a terminal; a plain line elsewhere. None ends it."""
    if not sys.stdout.isatty():
        if text:
            say(text)
        return
    print("\n" if text is None else f"\r\033[Kdemo: {text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
