"""The part of the demo about names and subnet routes: a name that the node itself answers, and a host behind a router that runs nothing of ours."""

import json
import sys
import time

from ..hosts.wait import LabError, wait_until
from ..nodes import subnets
from ..traffic import questions
from .demo_output import print_line, show

# Questions for a name, to give the median of their times.
ASKED = 50


def show_name(source, target):
    """Asks for a peer's name at the address where the node answers. Returns the name, its address and the median time."""
    names = source.status()["self"]["names"]
    name, server = f"{target.name}.{names['domain']}", names["servers"][0]
    ask = (sys.executable, "-I", questions.__file__, server)
    asked = json.dumps([[name, "A"]])
    [answer] = json.loads(source.host.run(*ask, text=asked).stdout)
    if not answer or answer["answers"] != [target.ipv4]:
        raise LabError(f"{source.name} does not find {name} at {server}: {answer}\n{source.process.tail()}")
    times = sorted(json.loads(source.host.run(*ask, "--repeat", ASKED, text=asked).stdout))
    print_line(f"{name} is {target.ipv4}: {source.name} itself answers, at {server}, in {times[len(times) // 2]:.2f} ms")
    return {"name": name, "address": target.ipv4, "median_ms": round(times[len(times) // 2], 3)}


def show_site(net, client, router):
    """Puts a network behind the router, with one host that runs nothing of ours, and reaches it from the client. Returns what was seen."""
    office = net.lab.switch("office", ipv6=False)
    printer = net.lab.host("printer", office)
    router.host.connect(office)
    route = str(office.subnets[0])
    subnets.serve(printer)
    print_line(f"printer ({printer.ipv4}) runs nothing of ours and knows no route to the overlay; {router.name} is in its network, and offers {route}")
    router.taut("set", "--advertise-routes", route)
    wait_until(lambda: route in net.coordinator.cli("routes", "list").stdout, "the coordinator to know the route", details=router.process.tail)
    net.coordinator.cli("routes", "approve", router.name, route)
    client.taut("set", "--accept-routes")
    begin = time.monotonic()
    wait_until(lambda: subnets.seen_as(client.host, printer.ipv4, timeout=1), "the printer to answer", details=client.process.tail)
    took = time.monotonic() - begin
    print_line(f"{client.name} → printer: connected {took * 1000:.0f} ms after `taut set --accept-routes`")
    show(client, "status")
    return {"route": route, "router": router.name, "connected_after_ms": round(took * 1000)}
