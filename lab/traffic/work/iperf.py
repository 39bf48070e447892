"""iperf3: a client, its server, and its report."""

import json

from ...hosts.wait import PATIENCE_S, LabError

# Rate in bits per second below which a stream counts as broken on a link without loss.
CARRIES_NOTHING = 1e6
# Rate in bits per second below which a stream counts as broken on any link: a thousandth of what TCP carries over the worst link of the lab.
DEAD = 1e3


class Iperf:
    """An iperf3 client in `source` with its own server in `target`: a server accepts one client at a time. Both end with the `with`.

    `seconds` are the counted seconds; those that `-O` leaves out come before. The body starts when the server listens. `begin()` starts the client, so that
    several clients can start at once.
    """

    def __init__(self, source, target, address, seconds, *options, port=None):
        self.source, self.target, self.address, self.seconds = source, target, address, seconds
        self.options, self.port = options, port or source.lab.free_port()
        self.server = self.client = None

    def __enter__(self):
        self.server = self.target.start("iperf3", "-s", "-1", "-p", self.port, "--forceflush", name=f"iperf3-server-{self.port}")
        try:
            self.server.wait_for_output("Server listening")
        except LabError:
            self.server.stop()
            raise
        return self

    def __exit__(self, *_):
        for process in (self.client, self.server):
            if process:
                process.stop()

    def begin(self):
        """Starts the client."""
        words = ("iperf3", "-c", self.address, "-p", self.port, "-t", self.seconds, "-J", *self.options)
        self.client = self.source.start(*words, name=f"iperf3-client-{self.port}")

    def report(self):
        """Waits for the end of both and returns the report of the client."""
        code = self.client.wait(self.seconds + PATIENCE_S)
        try:
            result = json.loads(self.client.output())
        except ValueError:
            raise LabError(f"iperf3 ended with exit status {code} and without a report\n{self.client.tail()}") from None
        if code != 0 or "error" in result:
            raise LabError(f"iperf3: {result.get('error', f'exit code {code}')}")
        self.server.wait(PATIENCE_S)
        return result


def report(source, target, address, seconds, *options):
    """Makes one run and returns its report."""
    with Iperf(source, target, address, seconds, *options) as run:
        run.begin()
        return run.report()


def tcp_figures(result, least=CARRIES_NOTHING):
    """Returns what the receiver got, both directions together if there are two, and the retransmissions of every sender."""
    end = result["end"]
    sent = [end[name] for name in ("sum_sent", "sum_sent_bidir_reverse") if name in end]
    received = [end[name] for name in ("sum_received", "sum_received_bidir_reverse") if name in end]
    if not all(part["bits_per_second"] >= least for part in received):
        raise LabError(f"a stream carried almost nothing: {sum(part['bytes'] for part in received)} bytes arrived")
    return {
        "mbps": round(sum(part["bits_per_second"] for part in received) / 1e6, 1),
        "ways_mbps": [round(part["bits_per_second"] / 1e6, 1) for part in received],
        "retransmits": sum(part.get("retransmits", 0) for part in sent),
        "congestion_control": end.get("sender_tcp_congestion", "unknown"),
    }


def udp_figures(result):
    """Returns the datagrams that left the socket of the sender and those that reached the receiver, as the receiver counted."""
    sent, received = result["end"]["sum_sent"], result["end"]["sum_received"]
    arrived = received["packets"] - received["lost_packets"]
    return {
        "offered_mbps": round(sent["bits_per_second"] / 1e6, 1),
        "mbps": round(received["bits_per_second"] / 1e6, 1),
        "lost_percent": round(100 * received["lost_packets"] / max(1, received["packets"]), 3),
        "packets": received["packets"],
        "packets_per_s": round(arrived / received["seconds"]) if received["seconds"] else 0,
    }


def moved(result):
    """Returns the bytes of a whole run, including the part that is not counted."""
    return sum(one[way]["bytes"] for one in result["intervals"] for way in ("sum", "sum_bidir_reverse") if way in one)
