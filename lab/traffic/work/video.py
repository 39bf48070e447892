"""Live video by RIST (VSF TR-06-2, the programs of librist): how much of it is there in time to be shown.

What stands for video is a transport stream at a constant rate whose packets carry a number and when they were sent: RIST does not look into
them. The rate is that of a film in HD. The receiver asks again for what is lost, and gives everything out when its buffer's time is over.
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
# RIST's own default, at both ends.
BUFFER_MS = 1000
# After that a picture is too late to be shown. The receiver holds all back for the buffer's time: half a second is left for the way.
IN_TIME_MS = 1500
# Seconds at the start that are not counted: the ends are still measuring their round trip.
OMITTED_S = 2
# What both write once they have met. (The same line with another count says that they have lost each other.)
_MET = "peer connected count is 1"
# What the receiver writes of all that it has seen.
_COUNTED = re.compile(r'"flow_cumulative_stats":(\{[^}]*\})')


class Video(Work):
    """Percent of the datagrams that came out of the receiver in time."""

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
        # In RIST's simple profile the next port is taken too, which is why ports have to be even.
        port = next(port for port in iter(sender.lab.free_port, None) if port % 2 == 0)
        take = rist("ristreceiver", f"rist://@{address}:{port}", f"udp://127.0.0.1:{out}")
        give = rist("ristsender", f"udp://@127.0.0.1:{into}", f"rist://{address}:{port}")
        with program(receiver, *take, name="ristreceiver") as taking, program(sender, *give, name="ristsender", ready=_MET):
            taking.wait_for_output(_MET)
            told = _played(sender, receiver, into, out, OMITTED_S + self.counted(quick))
            told["rist"] = _COUNTED.findall(taking.output())
        return video_figures(told)


def rist(name, source, target):
    """The words that start one of RIST's ends."""
    return (name, "-p", 1, "-b", BUFFER_MS, "-i", source, "-o", target)


def _played(sender, receiver, into, out, seconds):
    """Sends for so long; {"sent", "arrived": [[number, ms], ...]}."""
    with program(receiver, *_STREAM, "receive", out, name="stream-receive", ready="ready") as taken:
        done = sender.run(*_STREAM, "send", into, RATE, seconds, timeout=seconds + PATIENCE_S)
        time.sleep(IN_TIME_MS / 1000)
        taken.close_input()
        if taken.wait() != 0:
            raise LabError(f"the receiver of the stream broke\n{taken.tail()}")
        arrived = json.loads(taken.output().splitlines()[-1])["arrived"]
    return {**json.loads(done.stdout), "arrived": arrived, "seconds": seconds}


def video_figures(told):
    """Of what was sent after the first seconds. `delay_…` is from one program's hand to the other's, the buffer's time included."""
    first = round(told["sent"] * OMITTED_S / told["seconds"])
    sent, took = told["sent"] - first, {}
    for number, ms in told["arrived"]:
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
        "sender_late_ms": told["late_ms"],
    }
    return figures | _recovered(told.get("rist", []))


def _recovered(lines):
    """What RIST says of itself: how many it asked for again and got, and how many it gave up; of the whole run."""
    if not lines:
        return {}
    last = json.loads(lines[-1])
    return {"recovered_datagrams": last["recovered"], "given_up_datagrams": last["lost"]}
