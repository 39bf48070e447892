"""`make footprint`: the memory of a node that has joined, under load, and with many peers, measured with real programs. Options and output: figures.py."""

import sys

from .figures import Figures
from .footprint_measurements import MEASURED

FIGURES = Figures(
    name="footprint",
    summary="measures the memory of a node that has joined, under load, and with many peers",
    lines={
        "joined": ("joined, idle, direct paths to 3 peers: memory in RAM (RSS)", "≤ 3.0 MB"),
        "joined-own": ("… of this the node's own: without pages of the program's file, which the kernel drops when memory is short", "–"),
        "peak": ("peak in RAM during bulk TCP in both directions for 10 s, with one lane", "≤ 6 MB"),
        "peak-lanes": ("peak in RAM during bulk TCP in both directions for 10 s, in runs in which a second lane opened", "≤ 10.2 MB"),
        "peak-own": ("… of this the node's own after the load", "–"),
        "thousand": ("1,000 peers in the map, 10 of them active: memory in RAM (RSS)", "≤ 8 MB"),
        "thousand-own": ("… of this the node's own", "–"),
        "outside": ("the process beside the daemon (`taut outside`): its own memory", "–"),
    },
    several={"joined": ["joined", "joined-own", "outside"], "peak": ["peak", "peak-lanes", "peak-own"], "thousand": ["thousand", "thousand-own"]},
    measured=MEASURED,
    programs=["iperf3"],
    runs=5,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
