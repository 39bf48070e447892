"""The demo: four hosts join a network, find direct paths and exchange traffic. Two are behind separate NATs, the two others on a link with jumbo frames; behind one of these is a network of its own. Prints the figures.

    python3 -m lab.runs.demo         needs root, /dev/net/tun, iproute2, iperf3 and the release build
    HOLD=1 python3 -m lab.runs.demo  keeps it running until Ctrl-C and says how to explore it

Writes target/demo/result.json.
"""

import json
import os
import signal
import statistics
import sys
import time

from ..hosts import congestion, netem
from ..hosts.nats import KINDS, Internet
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..hosts.wait import PATIENCE_S, LabError
from ..nodes.local_api import LocalApi
from ..nodes.mesh import Mesh
from ..nodes.taut import Coordinator, Node
from ..traffic.flow import Ping, ping
from . import command, demo_mtu, demo_policy, demo_report, demo_site
from .demo_output import print_line, progress, show

# NAT of each host. The third host has a public address; the fourth is on the same network, whose links carry jumbo frames.
PLACES = {"node1": "port-restricted", "node2": "address-restricted", "node3": "open", "node4": "open"}
# Round-trip time in milliseconds to coordinator and relay, if the kernel has netem: so that relayed and direct round trips clearly differ.
FAR_MS = 20
SECONDS = int(os.environ.get("SECONDS_PER_RUN", "6"))
OUT = ROOT / "target" / "demo"
IPERF_PORT = 5201


def main():
    return command.run("demo", ["iperf3", "nft"], demonstrate, f"\nAll logs are in {OUT / 'logs'}")


def demonstrate():
    """Runs the demo; with HOLD=1 the network stays up after it."""
    with congestion.allowed("cubic") as cubic, Lab(OUT / "logs") as lab:
        run(lab, cubic)
        print(f"written: {(OUT / 'result.json').relative_to(ROOT)}", flush=True)
        if os.environ.get("HOLD"):
            hold(lab)
    return 0


def run(lab, cubic):
    """Runs the whole demo: prints the figures and writes them."""
    net = lay_out(lab)
    net.coordinator.start()
    print_line(f"coordinator: listens at {net.coordinator.url}; is also a relay on UDP 3478")
    net.join(*net.nodes)
    net.wait_for_maps()
    for node in net.nodes:
        print_line(f"{node.name} ({KINDS[PLACES[node.name]].words}) has joined as {node.ipv4} and {node.ipv6}")
    first, second, third, fourth = net.nodes
    for node in net.nodes:
        node.wait_for(lambda status: any(one["state"] == "bound" for one in status["relays"]), "a relay to bind the node")
    found = find_direct(first, second)
    net.connect()
    paths = {first.peer(other.name)["path"]["kind"] for other in net.nodes[1:]}
    print_line("every two nodes have a direct path")
    rtt = statistics.median(ping(first.host, second.ipv4, count=40)["ms"])
    mtus = [demo_mtu.wait_until_known(first, second)]
    show(first, "why", second.name)
    mtus += demo_mtu.show_jumbo(third, fourth, first)
    idle = memory(net, "VmRSS")
    runs = [throughput(source, target, cubic) for source, target in ((first, second), (first, third), (third, fourth))]
    result = {
        "schema": 1,
        "nodes": len(net.nodes),
        "places": PLACES,
        "path": "direct" if paths == {"direct"} else "mixed",
        **found,
        "rtt_ms": round(rtt, 3),
        "mtu": mtus,
        "tcp": runs,
        "congestion_control": " and ".join(sorted({run["congestion_control"] for run in runs})),
        "node_rss_kib": memory(net, "VmRSS"),
        "node_rss_idle_kib": idle,
        "node_rss_peak_kib": memory(net, "VmHWM"),
        "node_binary_bytes": binary("taut").stat().st_size,
        "drops": {node.name: node.status()["drops"] for node in net.nodes},
    }
    OUT.mkdir(parents=True, exist_ok=True)
    result["names"] = demo_site.show_name(first, second)
    result["site"] = demo_site.show_site(net, first, third)
    result["policy"] = demo_policy.show_policy(net, OUT, first, second)
    (OUT / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{demo_report.per_second(runs)}\n\n{demo_report.summary(result)}\n", flush=True)


def lay_out(lab):
    """Makes a small internet: servers in one network, two homes behind NATs, two public hosts on a network with jumbo frames."""
    print_line(f"an internet of routers; node1 and node2 are behind different NATs; node3 and node4 are on one network with links of {demo_mtu.JUMBO} bytes")
    internet = Internet(lab)
    server = internet.server("coord")
    if netem.available():
        server.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{FAR_MS}ms")
    *names, last = PLACES
    hosts = [internet.behind(PLACES[name], name) for name in names]
    hosts.append(internet.beside(hosts[-1], last))
    demo_mtu.widen(lab, hosts[-1].home)
    return Mesh(lab, [], Coordinator(server), [Node(host) for host in hosts])


def find_direct(source, target):
    """Sends the first packets to a peer: they go through the relay at once, and directly soon after."""
    with LocalApi(source) as api:
        start = time.monotonic()
        pings = Ping(source.host, target.ipv4, count=400, interval=0.01)
        relayed = None
        while (path := api.path(target.name)) != "direct" and time.monotonic() < start + PATIENCE_S:
            relayed = relayed or (time.monotonic() if path == "relayed" else None)
            time.sleep(0.002)
        direct = time.monotonic()
        if path != "direct":
            show(source, "why", target.name)
            raise LabError(f"{source.name} found no direct path to {target.name}\n{source.process.tail()}")
        result = pings.finish()
    if not result["received"]:
        raise LabError(f"{source.name} gets no reply from {target.name}\n{source.process.tail()}")
    times, took = result["ms"], max(0.0, direct - result["began"])
    print_line(f"first packet {source.name} → {target.name}: reply after {result['first_ms']:.1f} ms" + (", through the relay" if relayed else ""))
    by_relay = times[1 : max(2, int(took / 0.01) - 2)] if relayed else []
    if by_relay:
        print_line(f"then {statistics.median(by_relay):.1f} ms by the relay, until a direct path was found after {took * 1000:.0f} ms")
    print_line(f"then {statistics.median(times[-100:]):.2f} ms, straight from NAT to NAT; of {result['sent']} packets {result['sent'] - result['received']} were lost")
    return {
        "first_packet_ms": round(result["first_ms"], 2),
        "relayed_first": bool(relayed),
        "relayed_rtt_ms": round(statistics.median(by_relay), 2) if by_relay else None,
        "direct_after_ms": round(took * 1000, 1),
        "lost": result["sent"] - result["received"],
    }


def memory(net, field):
    """Returns the memory of the largest daemon in KiB."""
    return max(node.process.rss_kib(field) for node in net.nodes)


def throughput(source, target, cubic):
    """Runs iperf3 over the overlay; progress comes from the counters of the interface, figures from iperf3."""
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
    print_line(f"{source.name} → {target.name}: {row['mbps']:.0f} Mbit/s, {row['retransmits']} segments resent")
    return {"from": source.name, "to": target.name, **row}


def figures(report):
    """Returns the kept part of the report of iperf3. The rate is that of the receiver."""
    whole, end = report["end"]["streams"][0]["sender"], report["end"]
    seconds = [interval["streams"][0] for interval in report["intervals"]]
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
    """Keeps everything running and prints how to explore it."""
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
        print_line("removing everything")


if __name__ == "__main__":
    sys.exit(main())
