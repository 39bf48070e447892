"""`make mtu`: how soon the MTU of a path is found, and what packets wait for meanwhile, measured with real daemons. Options and output: figures.py."""

import sys

from .figures import Figures
from .mtu_measurements import MEASURED, SEVERAL

FIGURES = Figures(
    name="mtu",
    summary="measures how soon the MTU of a path is found, and what waits meanwhile",
    lines={
        "r22-1280": ("1 MiB as the first traffic over a path of 1,280 bytes that loses ICMP", "≤ 5 s"),
        "r22-1124": ("the same over a path of 1,124 bytes that loses ICMP", "≤ 5 s"),
        "found": ("MTU known after the direct path was proven", "≤ 1 s"),
        "shrinks": ("shorter MTU known after the path shrank under a TCP stream", "≤ 2 s"),
        "stalled": ("longest time without data of that stream", "≤ 2 s"),
        "jumbo": ("throughput of one stream on a link of 9,000 bytes without settings, compared with `--mtu 8900`", "≥ 97 %"),
        "lost": ("full-size pings lost after the first second, on each of several underlays", "0"),
    },
    measured=MEASURED,
    several=SEVERAL,
    programs=["iperf3", "nft"],
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
