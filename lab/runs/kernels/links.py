"""linkbox beside the kernel's netem at low rates: the same links, the same packets, once through each.

At these rates a packet is alone on its way, so that netem has no superpackets to treat as one (docs/linkbox.md, "Why not netem"), and both should show the same link.
"""

import re
import time

from ...hosts import netem
from ...hosts.net import Lab
from ...hosts.profiles import Profile
from ...hosts.site import lay_out
from ...hosts.wait import PATIENCE_S, LabError
from ...measure.quantile import quantile

# The links, as arguments of linkbox for each direction. The last one has rate and delay, where a queue forms.
LINKS = ("delay 20ms", "delay 20ms jitter 8ms", "delay 5ms loss 5%", "delay 5ms duplicate 5%", "rate 1mbit", "rate 4mbit delay 10ms")
# Echo requests of a link, and their interval in seconds: enough for a share of 5 % to come out within a third of itself.
PINGS, INTERVAL_S = 400, 0.02
# Offered load on a limited link, as a multiple of its rate, and the times in seconds before and while bytes are counted.
OVERLOAD, SETTLE_S, COUNT_S = 1.5, 2, 6
# Time that the hosts themselves may add to an echo on an emulated processor, in ms, besides a tenth of the mean.
_ADDED_MS = 3
COLUMNS = ("kernel", "link, each way", "by", "echoes", "lost, %", "doubled, %", "median, ms", "mean, ms", "p99, ms", "late, ms", "Mbit/s")


def run(lab, _job, say):
    if not netem.available():
        return {"ok": False, "error": "this kernel has no netem"}
    rows = []
    for number, words in enumerate(LINKS):
        for placement in ("packets", "netem"):
            with Lab(lab.logs / f"{number}-{placement}") as own:
                rows.append(_row(own, words, placement))
            say(f"{words}, {rows[-1]['by']}: {rows[-1]['mean_ms']} ms")
    return {"ok": all(_alike(one, other) for one, other in zip(rows[::2], rows[1::2])), "rows": rows}


def _row(lab, words, placement):
    """Measures one link."""
    site = lay_out(lab, Profile("link", words, words, {"right": words, "left": words}), placement=placement)
    one, other = site.hosts
    one.run("ping", "-c3", "-i0.2", other.ipv4, check=False)
    # Reports begin here.
    site.link_reports()
    done = one.run("ping", "-c", PINGS, "-i", INTERVAL_S, "-W", 2, other.ipv4, check=False, timeout=PINGS * INTERVAL_S + PATIENCE_S).stdout
    times = sorted(float(text) for text in re.findall(r"time=([\d.]+) ms(?! \(DUP)", done))
    reports = site.link_reports()
    sent = re.search(r"(\d+) packets transmitted, (\d+) received", done)
    if not times or not sent:
        raise LabError(f"{words} by {placement}: no echo came back\n{done[-300:]}")
    row = {
        "link": words,
        "by": "netem" if placement == "netem" else "linkbox",
        "echoes": int(sent[1]),
        "lost": round(100 * (1 - int(sent[2]) / int(sent[1])), 1),
        "doubled": round(100 * done.count("DUP!") / int(sent[1]), 1),
        "median_ms": round(quantile(times, 0.5), 2),
        "mean_ms": round(sum(times) / len(times), 2),
        "p99_ms": round(quantile(times, 0.99), 2),
        "late_ms": round(sum(report["to_right"]["lateness_us"]["mean"] for report in reports) / 1e3, 2) if reports else None,
        "mbit_s": None,
    }
    if rate := re.search(r"rate ([\d.]+)mbit", words):
        row["mbit_s"] = _throughput(one, other, float(rate[1]))
    return row


def _throughput(one, other, rate):
    """Returns what comes out of a link of `rate` Mbit/s under more load than it carries, in Mbit/s, with Ethernet headers."""
    server = other.start("iperf3", "-s", "-1", "--forceflush")
    server.wait_for_output("Server listening")
    length = SETTLE_S + COUNT_S + 2
    client = one.start("iperf3", "-u", "-c", other.ipv4, "-l", 1200, "-b", f"{rate * OVERLOAD}M", "-t", length)
    time.sleep(SETTLE_S)
    before, began = _counted(other)
    time.sleep(COUNT_S)
    after, ended = _counted(other)
    client.kill()
    server.kill()
    return round((after - before) * 8 / (ended - began) / 1e6, 3)


def _counted(host):
    """Returns the bytes that a host received, and the time of that: the middle of the look, which takes long on an emulated processor."""
    began = time.monotonic()
    received = host.counters()[0]
    return received, (began + time.monotonic()) / 2


def _alike(one, other):
    """Returns true if both show the same link, within what chance and an emulated processor add.

    linkbox, a program, may be later than netem by the time that it reports. That includes the sending of a frame, in which its receiver may work already.
    """
    later, added = one["mean_ms"] - other["mean_ms"], _ADDED_MS + 0.1 * other["mean_ms"]
    close = -added <= later <= one["late_ms"] + added
    shares = all(abs(one[name] - other[name]) <= 4 for name in ("lost", "doubled"))
    # The queue of linkbox is 50 ms long: a sender that is held up for longer lets it run empty. netem's is of a thousand packets.
    rates = one["mbit_s"] is None or abs(one["mbit_s"] - other["mbit_s"]) <= 0.1 * other["mbit_s"]
    return close and shares and rates


def cells(kernel, row):
    """Returns the cells of a row of the table."""
    rate = "" if row["mbit_s"] is None else f"{row['mbit_s']:.2f}"
    figures = [f"{row[name]:.2f}" if row.get(name) is not None else "" for name in ("median_ms", "mean_ms", "p99_ms", "late_ms")]
    return [kernel, f"`{row['link']}`", row["by"], str(row["echoes"]), f"{row['lost']:.1f}", f"{row['doubled']:.1f}", *figures, rate]
