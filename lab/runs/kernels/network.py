"""A network of two nodes with a router between them: joined, direct, with traffic both ways over IPv4 and IPv6."""

from ...nodes import mesh
from ...traffic.flow import Transfer, ping

# Bytes of a stream: enough for superpackets, and few enough for an emulated processor.
SIZE = 5_000_000
PINGS = 5


def run(lab, _job, say):
    net = mesh.build(lab, nodes=2, routed=True)
    say("joined")
    net.connect()
    say("direct")
    one, two = net.nodes
    found = {"ok": True, "pings": 0, "streams": []}
    for source, target in ((one, two), (two, one)):
        for address in (target.ipv4, target.ipv6):
            found["pings"] += ping(source.host, address, count=PINGS)["received"]
        done = Transfer(source.host, target.host, target.ipv4 if source is one else target.ipv6, size=SIZE).finish()
        found["streams"].append({"equal": done["equal"], "mbit_s": round(done["bytes"] * 8 / done["seconds"] / 1e6, 1)})
        say(f"{source.name} → {target.name}: {found['streams'][-1]['mbit_s']} Mbit/s")
    status = one.status()
    found["ok"] = found["pings"] == 4 * PINGS and all(stream["equal"] for stream in found["streams"])
    own = status["self"]
    found["offload"] = {"tun": own["tun"]["offload"], "udp": (own.get("udp") or {}).get("offload")}
    found["sandbox"] = status.get("sandbox")
    found["warnings"] = [warning["message"] for warning in status.get("warnings", [])]
    found["text"] = one.taut("status").stdout
    for node in net.nodes:
        found["ok"] = node.stop() == 0 and found["ok"]
    return found
