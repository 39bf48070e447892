"""Tailscale: tailscaled in each host; in the helper the test control server of its own module, with a relay and STUN (lab/nodes/systems/tailscale_control).

Two settings differ from an installation: hosts keep their resolver (its configuration is a file of the machine), and no packet filter is set, because the
lab requests none. Everything else is the choice of tailscaled. It counts as up when every pair of hosts has a direct path.
"""

import itertools

from ...hosts.wait import PATIENCE_S, wait_until
from ..taut import answering
from ..versions import VERSIONS, lacking, peer
from .base import System, begun, check_alive, fresh, ready

INTERFACE = "tailscale0"
# The default port of Tailscale, and a port for the control server.
PORT, CONTROL_PORT = 41641, 8090


class Tailscale(System):
    name = "tailscaled"
    title = "tailscaled"

    def lacking(self):
        return lacking("tailscale", "tailscaled", "tailscale", "control")

    def version(self):
        return VERSIONS["tailscale"]

    def start(self, hosts, helper, mtu):
        control = helper.start(peer("tailscale", "control"), "-address", helper.ipv4, "-port", CONTROL_PORT, name="tailscale-control")
        control.wait_for_output("ready")
        for host in hosts:
            fresh(host, "tailscale")
        running = begun(hosts, lambda n: [_run(hosts[n], mtu)], [], INTERFACE, aside=[control])
        running.addresses = [_up(host, f"http://{helper.ipv4}:{CONTROL_PORT}") for host in hosts]
        for one, other in itertools.combinations(range(len(hosts)), 2):
            _wait_for_path(hosts[one], running.addresses[other], running.processes[one][0])
        return ready(hosts, running)


def _run(host, mtu):
    """Starts the daemon. After the first time its state brings it up automatically."""
    own = host.state / "tailscale"
    places = [f"--statedir={own}", f"--socket={own / 'socket'}", f"--tun={INTERFACE}", f"--port={PORT}"]
    process = host.start(
        peer("tailscale", "tailscaled"), *places, "--no-logs-no-support", name="tailscaled", env={"TS_DEBUG_MTU": mtu} if mtu else None
    )

    def answers():
        check_alive(process)
        return answering(own / "socket")

    wait_until(answers, f"tailscaled in {host.name} to answer", details=process.tail)
    return process


def _up(host, server):
    """Joins; returns the address of the host."""
    limits = ["--accept-dns=false", "--netfilter-mode=off", f"--timeout={PATIENCE_S:.0f}s"]
    _tailscale(host, "up", f"--login-server={server}", f"--hostname={host.name}", *limits)
    return _tailscale(host, "ip", "-4").stdout.strip()


def _wait_for_path(host, address, process):
    """Waits until `tailscale ping` gets a direct answer."""

    def direct():
        check_alive(process)
        return _tailscale(host, "ping", "--timeout=1s", "-c", 10, address, check=False).returncode == 0

    wait_until(direct, f"{host.name} to reach {address} directly", details=process.tail)


def _tailscale(host, *words, check=True):
    command = (peer("tailscale", "tailscale"), "--socket", host.state / "tailscale" / "socket", *words)
    return host.run(*command, check=check, timeout=2 * PATIENCE_S)
