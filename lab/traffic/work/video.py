"""Live video by RIST (VSF TR-06-2, the programs of librist): the share that arrives in time to be shown.

The video is a transport stream at a constant rate, the rate of an HD film. Its packets carry a number and a send time; RIST does not inspect them. The
receiver requests retransmission of lost packets, and delivers everything when the time of its buffer is over.
"""

import json
import re
import sys
import time
from pathlib import Path

from ...hosts.wait import PATIENCE_S, LabError
from ...measure.quantile import quantile
from .base import Work, program

_STREAM = (sys.executable, "-I", str(Path(__file__).with_name("stream.py")))
RATE = 3_300_000
# Buffer at both ends in milliseconds: the default of RIST.
BUFFER_MS = 1000
# Delay after which a picture is too late, in milliseconds. The receiver holds everything for the time of the buffer: half a second remains for the
# path.
IN_TIME_MS = 1500
# Seconds at the start that are not counted, while the ends measure their round-trip time.
OMITTED_S = 2
# Output of both ends when they have connected. (The same line with another count reports that the connection was lost.)
_MET = "peer connected count is 1"
# Summary that the receiver writes.
_COUNTED = re.compile(r'"flow_cumulative_stats":(\{[^}]*\})')


class Video(Work):
    """Percentage of the datagrams that left the receiver in time."""

    name, title = "video", "video by RIST at 3.3 Mbit/s, in time"
    main = "in_time_percent"
    programs = ("ristsender", "ristreceiver")

    def counted(self, quick):
        return 4 if quick else 20

    def seconds(self, quick):
        return OMITTED_S + self.counted(quick) + IN_TIME_MS / 1000 + 3

    def figures(self, site, running, quick):
        sender, receiver = site.hosts[:2]
        address, into, out = running.addresses[1], sender.lab.free_port(), sender.lab.free_port()
        # RIST's simple profile also uses the next port, so ports have to be even.
        port = next(port for port in iter(sender.lab.free_port, None) if port % 2 == 0)
        take = rist("ristreceiver", f"rist://@{address}:{port}", f"udp://127.0.0.1:{out}")
        give = rist("ristsender", f"udp://@127.0.0.1:{into}", f"rist://{address}:{port}")
        with program(receiver, *take, name="ristreceiver") as taking, program(sender, *give, name="ristsender", ready=_MET):
            taking.wait_for_output(_MET)
            report = _played(sender, receiver, into, out, OMITTED_S + self.counted(quick))
            report["rist"] = _COUNTED.findall(taking.output())
        return video_figures(report)


def rist(name, source, target):
    """Returns the command line of an end of RIST."""
    return (name, "-p", 1, "-b", BUFFER_MS, "-i", source, "-o", target)


def _played(sender, receiver, into, out, seconds):
    """Sends for `seconds` and returns {"sent", "arrived": [[number, ms], ...]}."""
    with program(receiver, *_STREAM, "receive", out, name="stream-receive", ready="ready") as taken:
        done = sender.run(*_STREAM, "send", into, RATE, seconds, timeout=seconds + PATIENCE_S)
        time.sleep(IN_TIME_MS / 1000)
        taken.close_input()
        if taken.wait() != 0:
            raise LabError(f"the receiver of the stream failed\n{taken.tail()}")
        arrived = json.loads(taken.output().splitlines()[-1])["arrived"]
    return {**json.loads(done.stdout), "arrived": arrived, "seconds": seconds}


def video_figures(report):
    """Returns figures of the datagrams sent after the first seconds. `delay_…` is from program to program, including the time of the buffer."""
    first = round(report["sent"] * OMITTED_S / report["seconds"])
    sent, took = report["sent"] - first, {}
    for number, ms in report["arrived"]:
        if number >= first:
            took.setdefault(number, ms)
    if not took:
        raise LabError("no picture arrived")
    in_time = sum(ms <= IN_TIME_MS for ms in took.values())
    figures = {
        "in_time_percent": round(100 * in_time / sent, 3),
        "delivered_percent": round(100 * len(took) / sent, 3),
        "delay_p50_ms": quantile(took.values(), 0.5),
        "delay_p99_ms": quantile(took.values(), 0.99),
        "sent_datagrams": sent,
        "sender_late_ms": report["late_ms"],
    }
    return figures | _recovered(report.get("rist", []))


def _recovered(lines):
    """Returns the statistics of RIST for the whole run: requested and recovered packets, and packets given up."""
    if not lines:
        return {}
    last = json.loads(lines[-1])
    return {"recovered_datagrams": last["recovered"], "given_up_datagrams": last["lost"]}
