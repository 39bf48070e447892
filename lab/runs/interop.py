"""Interoperation of `taut wg` with other WireGuards: every pair, through a real rekey, as a table.

    python3 -m lab.runs.interop [--seconds N] [--output FILE]

Each case is a separate pair of hosts. All cases run at once, because most of the time is the wait for WireGuard's 120 seconds. A cell of the table is a
measured number or an error. Exit status 1 if a case failed; an implementation that is not installed is named and left out.
"""

import argparse
import concurrent.futures
import itertools
import subprocess
import sys
import time
from pathlib import Path

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from ..measure import markdown
from ..nodes.wireguard import VERSIONS, lacking, pair
from ..traffic.flow import Probe, Transfer

# Duration in seconds: the first rekey is due after 120 s (WireGuard's paper, section 6.1), plus the time of a retry.
SECONDS = 140
INTERVAL_S = 0.05
# Longest allowed silence in seconds: longer than a lost handshake message causes, much shorter than a deaf side.
GAP_S = 0.5
SIZE = 20_000_000
COLUMNS = ("initiator", "responder", "outer", "psk", "keepalive", "first ping", "transfer", "rekeys", "datagrams", "lost", "restarts", "verdict")


class Case:
    """A pair: the initiator (the other side knows no endpoint), the IP version, and with or without a preshared key and keepalives."""

    # Bytes of a transfer, and seconds between two looks for a new session.
    size, look_s = SIZE, 1

    def __init__(self, initiator, responder, family, psk, keepalive):
        self.initiator, self.responder = initiator, responder
        self.family, self.psk, self.keepalive = family, psk, keepalive
        self.row = {name: "" for name in COLUMNS}
        self.row.update(
            {
                "initiator": initiator,
                "responder": responder,
                "outer": f"IPv{family}",
                "psk": "yes" if psk else "no",
                "keepalive": f"{keepalive} s" if keepalive else "no",
            }
        )

    def run(self, lab, number, seconds):
        """Fills the row; errors of the peers are recorded, not raised."""
        try:
            self._run(lab, number, seconds)
            self.row["verdict"] = "ok"
        except (LabError, subprocess.SubprocessError) as error:
            print(f"{self.row['initiator']} → {self.row['responder']}: {error}", file=sys.stderr)
            self.row["verdict"] = str(error).splitlines()[0]

    def build(self, lab, number):
        """Makes the two configured interfaces; sends nothing."""
        kinds, names = (self.initiator, self.responder), (f"i{number}", f"r{number}")
        self.one, self.two = pair(lab, kinds, self.family, self.psk, self.keepalive, names=names, passive=True)

    def _run(self, lab, number, seconds):
        one, two = self.one, self.two
        self.row["first ping"] = "yes" if one.reaches("10.9.0.2") else "again"
        two.reaches("fd09::1")
        if not Transfer(one.host, two.host, "10.9.0.2", size=self.size).finish()["equal"]:
            raise LabError("the transfer altered bytes")
        if not Transfer(two.host, one.host, "fd09::1", size=self.size).finish()["equal"]:
            raise LabError("the transfer back altered bytes")
        self.row["transfer"] = "both ways"
        self._rekey(one, two, seconds)
        self._restart(one, two)

    def _rekey(self, one, two, seconds):
        """Sends traffic both ways across at least one rekey; counts each datagram."""
        # Asks `taut wg`: boringtun reports an age by the wall clock, which differs from query to query.
        here, there = (one, two) if self.initiator == "taut" else (two, one)
        seen = {here.peer(there.public)["handshake"]}
        probe = Probe(one.host, two.host, "10.9.0.2", interval=INTERVAL_S)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            seen.add(here.peer(there.public)["handshake"])
            time.sleep(self.look_s)
        result = probe.finish()
        gap = longest(result["lost"])
        self.row.update({"rekeys": len(seen) - 1, "datagrams": result["sent"], "lost": result["sent"] - result["received"]})
        if seconds >= SECONDS and len(seen) < 2:
            raise LabError("no rekey was seen")
        # A tunnel that is deaf in one direction for some seconds loses many datagrams in a row (fault L7).
        if gap * INTERVAL_S > GAP_S:
            raise LabError(f"silence for {gap * INTERVAL_S:.1f} s")

    def _restart(self, one, two):
        """Restarts either side. The initiator notices on its own that the responder restarted (paper, section 6.5)."""
        for side in (two, one):
            side.restart()
            one.reaches("10.9.0.2")
            two.reaches("fd09::1")
        self.row["restarts"] = "both"


def longest(numbers):
    """Returns the length of the longest sequence of consecutive numbers."""
    best = run = 0
    previous = None
    for number in sorted(numbers):
        run = run + 1 if previous is not None and number == previous + 1 else 1
        best, previous = max(best, run), number
    return best


def cases(kinds):
    """Yields both roles over both IP versions, alternating with a preshared key and with keepalives."""
    for kind in kinds:
        for (family, psk), roles in itertools.product(((4, True), (6, False)), dict.fromkeys((("taut", kind), (kind, "taut")))):
            yield Case(*roles, family, psk, 25 if psk else None)


def run(lab, chosen, seconds):
    """Runs all cases at once; they fill their rows."""
    # Namespaces are made one after the other: `Lab` is not thread-safe.
    for number, case in enumerate(chosen):
        case.build(lab, number)
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
        list(pool.map(lambda numbered: numbered[1].run(lab, numbered[0], seconds), enumerate(chosen)))
    return [case.row for case in chosen]


def table(rows):
    """Returns the rows in Markdown."""
    return markdown.table(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def further(page):
    """Returns the sections of the page after the first one, which other programs made."""
    _, found, rest = page.read_text(encoding="utf-8").partition("\n## ") if page.exists() else ("", "", "")
    return found + rest


def document(rows, lacks, seconds, rest=""):
    """Returns docs/interop.md. `rest` are further sections."""
    kernel = subprocess.run(["uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    versions = ", ".join(f"{kind} {version}" for kind, version in VERSIONS.items())
    left_out = "".join(f"\nLeft out: {lack}.\n" for lack in lacks)
    return f"""# Interoperation

Made by `make interop`; changes by hand are lost. `taut wg` against {versions}, each configured by the stock `wg`, in network namespaces
of one machine (Linux {kernel}), all pairs at once. Every line: the initiator's first ping starts the first handshake; {SIZE // 1_000_000} MB
by TCP over inner IPv4 one way and over inner IPv6 back, compared by SHA-256; a UDP datagram every {INTERVAL_S * 1000:.0f} ms and its echo for
{seconds} s through WireGuard's own 120 s rekey, each loss counted (fault L7); then the responder is restarted, then the initiator.
The responder has no configured endpoint: it answers to the source address and follows it when it changes.

{table(rows)}
{left_out}{rest}"""


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.interop", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"duration of the rekey part in seconds (default {SECONDS})")
    parser.add_argument("--output", type=Path, help="write the document to this file")
    args = parser.parse_args()
    lacks = [lack for lack in map(lacking, VERSIONS) if lack]
    for lack in lacks:
        print(f"interop: skipped: {lack}", file=sys.stderr)
    chosen = list(cases([kind for kind in VERSIONS if not lacking(kind)] + ["taut"]))
    with Lab(ROOT / "target" / "lab" / "interop") as lab:
        rows = run(lab, chosen, args.seconds)
        lab.failed = any(row["verdict"] != "ok" for row in rows)
    print(table(rows))
    if args.output:
        args.output.write_text(document(rows, lacks, args.seconds, further(args.output)))
    return 1 if any(row["verdict"] != "ok" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
