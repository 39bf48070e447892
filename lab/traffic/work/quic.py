"""QUIC by quinn (proof/load), as an application uses it: a stream in bulk, and how long until the first byte of a connection."""

import json

from ...hosts.programs import binary
from ...hosts.wait import PATIENCE_S, LabError
from ...measure.quantile import quantile
from . import estimate
from .base import Spent, Work, program

# As quinn's controllers are called in proof/load.
CONGESTION = ("cubic", "reno", "bbr")
# What a new connection costs besides round trips: the server's signature, and the client's wait for what of the handshake got lost (RFC 9002: three
# times the first guess of a round trip, 333 ms).
HANDSHAKE_S, RETRY_S = 0.003, 1.0
# Round trips until the first byte, and the packets whose loss is waited for so long.
ROUND_TRIPS, PACKETS = 2, 4


class Load(Work):
    """What both have in common: the program, its server, its answer."""

    def lacking(self):
        try:
            binary("load")
        except LabError:
            return "not built: cargo build --release -p taut-load (`make bench` does)"
        return None

    def ask(self, site, running, verb, *options, timeout):
        """The answer of a client in the first host to a server in the second."""
        client, server = site.hosts[:2]
        if site.congestion not in CONGESTION:
            raise LabError(f"quinn has no congestion control {site.congestion}; it has {', '.join(CONGESTION)}")
        where = f"{running.addresses[1]}:{client.lab.free_port()}"
        common = ("--certificate", server.state / "load.der", "--congestion", site.congestion)
        with program(server, binary("load"), "serve", "--listen", where, *common, name="load-serve", ready='"listening"'):
            done = client.run(binary("load"), verb, "--connect", where, *common, *options, timeout=timeout)
        return json.loads(done.stdout)


class Quic(Load):
    """One stream, counted where it arrives in order."""

    name, title = "quic", "QUIC, one stream"
    main = "mbps"

    def omitted(self, quick):
        return 1 if quick else 2

    def seconds(self, quick):
        return self.omitted(quick) + (2 if quick else 10)

    def figures(self, site, running, quick):
        seconds, omitted, spent = self.seconds(quick), self.omitted(quick), Spent(running)
        lengths = ("--milliseconds", 1000 * (seconds - omitted), "--omit-milliseconds", 1000 * omitted)
        told = self.ask(site, running, "bulk", *lengths, timeout=seconds + PATIENCE_S)
        return bulk_figures(told) | spent.per_gb(told["sent_bytes"])


class FirstByte(Load):
    """New connections one after the other: a full TLS handshake each, a request, and the first byte of its answer."""

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
        # Each may wait for quinn's retries on a link that loses; the client itself gives up on one after 20 s.
        told = self.ask(site, running, "first-byte", "--tries", tries, timeout=2 * PATIENCE_S + tries)
        return first_byte_figures(told)


def bulk_figures(told):
    """The throughput that the receiver counted, and what the connection went through."""
    if not told["bytes"]:
        raise LabError("nothing arrived while it was counted")
    return {
        "mbps": round(8 * told["bytes"] / told["microseconds"], 1),
        # What the sender took for lost: where packets overtake each other that is more than was.
        "taken_for_lost_percent": round(100 * told["lost_packets"] / max(1, told["sent_packets"]), 3),
        "congestion_events": told["congestion_events"],
        "datagram_bytes": told["datagram_bytes"],
        "datagrams_per_call": round(told["sent_datagrams"] / max(1, told["send_calls"]), 1),
        "congestion_control": told["congestion_control"],
    }


def first_byte_figures(told):
    """Of the connections that came about; those that did not are counted."""
    if not told["first_byte_ms"]:
        raise LabError(f"none of {told['tries']} connections came about: {'; '.join(sorted(set(told['failures'])))}")
    return {
        "p50_ms": round(quantile(told["first_byte_ms"], 0.5), 3),
        "p99_ms": round(quantile(told["first_byte_ms"], 0.99), 3),
        "max_ms": round(max(told["first_byte_ms"]), 3),
        "handshake_p50_ms": round(quantile(told["handshake_ms"], 0.5), 3),
        "failed_percent": round(100 * len(told["failures"]) / told["tries"], 3),
        "connections": told["tries"],
    }
