"""The part of the demo about the policy: one service of a host is open to another host, and one is not."""

import json

from ..hosts.wait import LabError, wait_until
from ..traffic.service import connects, serve
from .demo_output import print_line, show

WEB, ADMIN = 8080, 22


def show_policy(net, directory, source, target):
    """Applies a policy that opens one port of the target to the source; shows a connection that it allows, and one that it denies. Returns what was seen."""
    for port in (WEB, ADMIN):
        serve(target, port)
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
