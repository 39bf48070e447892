"""The part of the demo about the policy: one service of a host is open to another host, and one is not."""

import json
import sys

from ..hosts.wait import LabError, wait_until
from .demo_output import print_line, show

WEB, ADMIN = 8080, 22
# Seconds after which a connection counts as denied: an allowed one opens within a round trip.
DENIED_S = 1.0
SERVE = (
    "import socket,sys\n"
    "s=socket.create_server((sys.argv[1],int(sys.argv[2])))\n"
    "print('ready',flush=True)\n"
    "while True:\n"
    " c,_=s.accept(); c.sendall(b'hello'); c.close()\n"
)
CONNECT = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=float(sys.argv[3]))\n"
    "print(s.recv(9).decode())\n"
)


def show_policy(net, directory, source, target):
    """Applies a policy that opens one port of the target to the source; shows a connection that it allows, and one that it denies. Returns what was seen."""
    for port in (WEB, ADMIN):
        target.host.start(sys.executable, "-I", "-c", SERVE, target.ipv4, port, name=f"service-{port}").wait_for_output("ready")
    # Everybody else goes on as before: this network's other hosts still have to be measured.
    path = directory / "policy.hujson"
    path.write_text(policy(target))
    net.coordinator.cli("devices", "tag", source.name, "tag:laptop")
    net.coordinator.cli("policy", "apply", str(path), "--comment", "one port")
    wait_until(lambda: not connects(source, target, ADMIN), "the policy to be in force", details=target.process.tail)
    print_line(f"a policy lets {source.name} reach port {WEB} of {target.name}, and no other port:\n\n{policy(target)}")
    if not connects(source, target, WEB):
        raise LabError(f"{source.name} does not reach port {WEB} of {target.name}\n{target.process.tail()}")
    print_line(f"{source.name} → {target.name}, port {WEB}: connected")
    print_line(f"{source.name} → {target.name}, port {ADMIN}: no answer")
    show(source, "why", target.name, "--port", str(ADMIN))
    verdict = json.loads(source.taut("why", target.name, "--port", ADMIN, "--json").stdout)["verdict"]
    refused = target.status()["drops"].get("in-policy", 0)
    print_line(f"{target.name} refused {refused} packets (`taut status`, in-policy); `taut log` there names some:")
    print("\n".join(line for line in target.taut("log").stdout.splitlines() if "packet-filtered" in line), flush=True)
    return {"allowed_port": WEB, "denied_port": ADMIN, "verdict": verdict, "refused_packets": refused}


def policy(target):
    return f"""{{
  "tagOwners": {{"tag:laptop": []}},
  "hosts": {{"web": "{target.ipv4}"}},
  "acls": [
    {{"action": "accept", "src": ["tag:laptop"], "dst": ["web:{WEB}"]}},
  ],
  "tests": [
    {{"src": "tag:laptop", "accept": ["web:{WEB}"], "deny": ["web:{ADMIN}"]}},
  ],
}}
"""


def connects(source, target, port):
    """Returns true if a connection over the overlay is answered."""
    words = (sys.executable, "-I", "-c", CONNECT, target.ipv4, port, DENIED_S)
    return source.host.run(*words, check=False).returncode == 0
