"""tinc 1.0: a key for each host, the description of every host on every host, connections between all."""

from ..versions import lacking_package, printed_version
from .base import System, begun, fresh, inner, ready, wait_for_interface

NETWORK, INTERFACE = 2, "tinc0"


class Tinc(System):
    name = "tinc"
    title = "tinc"

    def lacking(self):
        return lacking_package("tincd", "tinc")

    def version(self):
        return printed_version("tincd", "--version")

    def start(self, hosts, helper, mtu):
        addresses = [inner(NETWORK, n) for n in range(len(hosts))]
        for n, host in enumerate(hosts):
            _describe(host, n, addresses[n], len(hosts))
        _exchange(hosts)

        def begin(n):
            return [_run(hosts[n], addresses[n], mtu)]

        return ready(hosts, begun(hosts, begin, addresses, INTERFACE))


def _name(n):
    """Returns the name of a host in tinc, which allows no hyphens."""
    return f"host{n}"


def _describe(host, n, address, count):
    """Writes the configuration and the description of the host. tincd makes the keys and appends the public key to the description."""
    own = fresh(host, "tinc")
    others = [f"ConnectTo = {_name(m)}" for m in range(count) if m != n]
    (own / "tinc.conf").write_text("\n".join([f"Name = {_name(n)}", f"Interface = {INTERFACE}", "AddressFamily = ipv4", *others]) + "\n")
    (own / "hosts").mkdir()
    (own / "hosts" / _name(n)).write_text(f"Address = {host.ipv4}\nSubnet = {address}/32\n")
    host.run("tincd", "-c", own, "-K")


def _exchange(hosts):
    for n, host in enumerate(hosts):
        text = (host.state / "tinc" / "hosts" / _name(n)).read_text()
        for other in hosts:
            (other.state / "tinc" / "hosts" / _name(n)).write_text(text)


def _run(host, address, mtu):
    own = host.state / "tinc"
    # Hosts share the files of the machine, so each has its own pid file. A boot would have removed an old one.
    (own / "pid").unlink(missing_ok=True)
    process = host.start("tincd", "-c", own, "-D", "-d1", f"--pidfile={own / 'pid'}", name="tincd")
    wait_for_interface(host, INTERFACE, process)
    # Replaces its script tinc-up: the file system with the state of the hosts may forbid programs.
    host.ip(f"address add {address}/24 dev {INTERFACE}", f"link set {INTERFACE} {f'mtu {mtu} ' if mtu else ''}up")
    return process
