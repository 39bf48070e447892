"""EasyTier: every host connects to the hosts before it over UDP, as in its quick start."""

from ..versions import VERSIONS, lacking, peer
from .base import System, begun, inner, ready

NETWORK, INTERFACE, PORT = 4, "et0", 11010
PROGRAM = "bin/easytier-core"
# Bytes that it subtracts from the configured MTU for its encryption.
SEALED = 20


class EasyTier(System):
    name = "easytier"
    # The newest version in the registry is of 2024; the title says so, for readers of tables.
    title = f"EasyTier {VERSIONS['easytier']} (2024)"

    def lacking(self):
        return lacking("easytier", PROGRAM)

    def version(self):
        return VERSIONS["easytier"]

    def start(self, hosts, helper, mtu):
        addresses = [inner(NETWORK, n) for n in range(len(hosts))]

        def begin(n):
            own = ["--hostname", hosts[n].name, "--ipv4", addresses[n], "--dev-name", INTERFACE, *(["--mtu", mtu + SEALED] if mtu else [])]
            known = [f"udp://{host.ipv4}:{PORT}" for host in hosts[:n]]
            words = ["--network-name", "lab", "--network-secret", "lab", *own, *(["--peers", *known] if known else [])]
            return [hosts[n].start(peer("easytier", PROGRAM), *words, name="easytier")]

        return ready(hosts, begun(hosts, begin, addresses, INTERFACE))
