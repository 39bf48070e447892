"""Measures one figure each: iperf3 and echo requests over a running system, with their cost."""

import time
from dataclasses import dataclass

from ...measure.cpu import Reading
from ...traffic.work.echo import echoes
from ...traffic.work.iperf import Iperf, moved, tcp_figures, udp_figures
from ...traffic.work.udp import DATAGRAM

PORT = 5201
SMALL = 64
# Time that a stream runs before the echo requests start, in seconds.
RAMP_S = 1
# Interval at which iperf3 looks whether a datagram is due, in microseconds: about that of datagrams at 1 Gbit/s. By default it looks every millisecond and sends a burst.
EVEN_US = 10
# Counters of drops and reordering in the kernel, per host (/proc/net/snmp, /proc/net/netstat).
_COUNTERS = {
    "Udp": ("RcvbufErrors", "SndbufErrors", "InErrors"),
    "TcpExt": ("TCPOFOQueue", "TCPSACKReorder", "TCPTSReorder", "TCPDSACKRecv", "TCPLossProbes"),
}


@dataclass
class Lengths:
    """Duration of each kind of run in seconds."""

    tcp: int
    udp: int
    idle: int
    loaded: int
    # Seconds at the start of a TCP run that are not counted.
    omitted: int = 1


class Meter:
    """Measures `running` between the first two hosts."""

    def __init__(self, hosts, running, lengths):
        self.sender, self.receiver = self.hosts = hosts
        self.running, self.lengths = running, lengths
        self.address = running.addresses[1]

    def run(self, test):
        """Returns the figures of one test, as a dict with units in its names."""
        return TESTS[test](self)

    def warm_up(self):
        """Sends for one second each way, not counted: touches buffers and completes handshakes."""
        self._iperf(1)
        self._iperf(1, "-R")

    def tcp(self, *options):
        report, cost = self._iperf(self.lengths.tcp, "-O", self.lengths.omitted, *options)
        return tcp_figures(report) | cost

    def udp(self, rate, size=DATAGRAM, *options):
        report, cost = self._iperf(self.lengths.udp, "-u", "-b", rate, "-l", size, *options)
        return udp_figures(report) | cost

    def idle(self):
        start = Reading(self.running.processes)
        return self._echo(self.lengths.idle) | {"cpu": Reading(self.running.processes).since(start)}

    def loaded(self):
        """Sends echo requests beside one stream."""
        seen = {}
        seconds = self.lengths.loaded + 1
        report, cost = self._iperf(seconds, "-O", RAMP_S, during=lambda: seen.update(self._echo(self.lengths.loaded)))
        return seen | tcp_figures(report) | cost

    def _echo(self, seconds):
        return echoes(self.sender, self.address, seconds)

    def _iperf(self, seconds, *options, during=None):
        """Returns the report of iperf3, and {"bytes", "cpu", "kernel"} of the whole run, including the part that is not counted."""
        start, counted = Reading(self.running.processes), self._kernel()
        with Iperf(self.sender, self.receiver, self.address, seconds, *options, port=PORT) as run:
            run.begin()
            if during:
                time.sleep(RAMP_S)
                during()
            report = run.report()
        cpu = Reading(self.running.processes).since(start)
        kernel = {name: value - counted[name] for name, value in self._kernel().items()}
        return report, {"bytes": moved(report), "cpu": cpu, "kernel": {name: value for name, value in kernel.items() if value}}

    def _kernel(self):
        """Returns counters of both hosts, and drops of their tunnel interfaces."""
        found = {}
        for host in self.hosts:
            text = host.run("cat", "/proc/net/snmp", "/proc/net/netstat").stdout
            for name, value in counters(text).items():
                found[f"{host.name}.{name}"] = value
            # Excludes the sockets of iperf3, which exist only during a run.
            found[f"{host.name}.tunnel_socket_drops"] = socket_drops(host.run("cat", "/proc/net/udp", "/proc/net/udp6").stdout)
            where = f"/sys/class/net/{self.running.interface}/statistics"
            sent, received = host.run("cat", f"{where}/tx_dropped", f"{where}/rx_dropped").stdout.split()
            found |= {f"{host.name}.interface_tx_dropped": int(sent), f"{host.name}.interface_rx_dropped": int(received)}
        return found


def socket_drops(text):
    """Returns the datagrams dropped at all sockets in /proc/net/udp: the sum of the last column."""
    return sum(int(line.split()[-1]) for line in text.splitlines() if ":" in line)


def counters(text):
    """Returns the counters of `_COUNTERS` in /proc/net/snmp and /proc/net/netstat: per group a line of names, then a line of values."""
    found, lines = {}, text.splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        group = names.split(":")[0]
        row = dict(zip(names.split()[1:], values.split()[1:]))
        found |= {f"{group}.{name}": int(row[name]) for name in _COUNTERS.get(group, ()) if name in row}
    return found


# In the order of the tables: name of a test in tunnel.json.
TESTS = {
    "idle": Meter.idle,
    "tcp-1": Meter.tcp,
    "tcp-4": lambda meter: meter.tcp("-P", 4),
    "tcp-reverse": lambda meter: meter.tcp("-R"),
    "tcp-both": lambda meter: meter.tcp("--bidir"),
    "udp-500": lambda meter: meter.udp("500M"),
    "udp-1000": lambda meter: meter.udp("1G"),
    "udp-1000-even": lambda meter: meter.udp("1G", DATAGRAM, "--pacing-timer", EVEN_US),
    "udp-2000": lambda meter: meter.udp("2G"),
    "udp-unlimited": lambda meter: meter.udp(0),
    "small": lambda meter: meter.udp(0, SMALL),
    "loaded": Meter.loaded,
}
