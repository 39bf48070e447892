"""QUIC by quinn (proof/load), as an application uses it: a bulk stream, and the time until the first byte of a connection."""

import json

from ...hosts.programs import binary
from ...hosts.wait import PATIENCE_S, LabError
from ...measure.quantile import quantile
from . import estimate
from .base import CpuMeter, Work, program

# Names of the congestion controllers of quinn in proof/load.
CONGESTION = ("cubic", "reno", "bbr")
# Cost of a new connection besides round trips, in seconds: the signature of the server, and the wait for a lost handshake packet (RFC 9002: three
# times the initial round-trip time of 333 ms).
HANDSHAKE_S, RETRY_S = 0.003, 1.0
# Round trips until the first byte, and packets whose loss causes that wait.
ROUND_TRIPS, PACKETS = 2, 4


class Load(Work):
    """The common part: the program, its server, its answer."""

    def lacking(self):
        try:
            binary("load")
        except LabError:
            return "not built: cargo build --release -p taut-load (`make bench` does)"
        return None

    def ask(self, site, running, verb, *options, timeout):
        """Returns the answer of a client in the first host to a server in the second."""
        client, server = site.hosts[:2]
        if site.congestion not in CONGESTION:
            raise LabError(f"quinn has no congestion control {site.congestion}; it has {', '.join(CONGESTION)}")
        where = f"{running.addresses[1]}:{client.lab.free_port()}"
        common = ("--certificate", server.state / "load.der", "--congestion", site.congestion)
        with program(server, binary("load"), "serve", "--listen", where, *common, name="load-serve", ready='"listening"'):
            done = client.run(binary("load"), verb, "--connect", where, *common, *options, timeout=timeout)
        return json.loads(done.stdout)


class Quic(Load):
    """One stream, counted at the receiver in order."""

    name, title = "quic", "QUIC, one stream"
    main = "mbps"

    def omitted(self, quick):
        return 1 if quick else 2

    def seconds(self, quick):
        return self.omitted(quick) + (2 if quick else 10)

    def figures(self, site, running, quick):
        seconds, omitted, spent = self.seconds(quick), self.omitted(quick), CpuMeter(running)
        lengths = ("--milliseconds", 1000 * (seconds - omitted), "--omit-milliseconds", 1000 * omitted)
        report = self.ask(site, running, "bulk", *lengths, timeout=seconds + PATIENCE_S)
        return bulk_figures(report) | spent.per_gb(report["sent_bytes"])


class FirstByte(Load):
    """New connections one after the other: each with a full TLS handshake, a request, and the first byte of the answer."""

    name, title = "quic-first-byte", "QUIC, first byte of a new connection"
    main, better = "p50_ms", "less"

    def tries(self, quick):
        return 30 if quick else 100

    def seconds(self, quick):
        return 1 if quick else 3

    def takes(self, quick, link):
        each = HANDSHAKE_S + ROUND_TRIPS * link.round_trip_ms / 1e3 + PACKETS * estimate.lost_round_trips(link) / 2 * RETRY_S
        return self.seconds(quick) + self.tries(quick) * each

    def figures(self, site, running, quick):
        tries = self.tries(quick)
        # Each connection may wait for retries of quinn on a lossy link; the client gives up on a connection after 20 s.
        report = self.ask(site, running, "first-byte", "--tries", tries, timeout=2 * PATIENCE_S + tries)
        return first_byte_figures(report)


def bulk_figures(report):
    """Returns the throughput that the receiver counted, and statistics of the connection."""
    if not report["bytes"]:
        raise LabError("nothing arrived in the counted period")
    return {
        "mbps": round(8 * report["bytes"] / report["microseconds"], 1),
        # Packets that the sender declared lost: with reordering these are more than were lost.
        "taken_for_lost_percent": round(100 * report["lost_packets"] / max(1, report["sent_packets"]), 3),
        "congestion_events": report["congestion_events"],
        "datagram_bytes": report["datagram_bytes"],
        "datagrams_per_call": round(report["sent_datagrams"] / max(1, report["send_calls"]), 1),
        "congestion_control": report["congestion_control"],
    }


def first_byte_figures(report):
    """Returns figures of the connections that succeeded, and counts the others."""
    if not report["first_byte_ms"]:
        raise LabError(f"none of {report['tries']} connections succeeded: {'; '.join(sorted(set(report['failures'])))}")
    return {
        "p50_ms": round(quantile(report["first_byte_ms"], 0.5), 3),
        "p99_ms": round(quantile(report["first_byte_ms"], 0.99), 3),
        "max_ms": round(max(report["first_byte_ms"]), 3),
        "handshake_p50_ms": round(quantile(report["handshake_ms"], 0.5), 3),
        "failed_percent": round(100 * len(report["failures"]) / report["tries"], 3),
        "connections": report["tries"],
    }
