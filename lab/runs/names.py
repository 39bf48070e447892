"""`make names`: how soon the stub answers for a peer's name, also while every other server is dead, measured with real daemons. Options and output: figures.py."""

import sys

from .figures import Figures
from .names_measurements import MEASURED

FIGURES = Figures(
    name="names",
    summary="measures how soon the stub answers for a peer's name, also while every other server is dead",
    lines={
        "peer": ("a peer's name, asked at the stub over UDP: the 99th of 100 questions", "≤ 2 ms"),
        "dead": ("the same, while 50 questions a second go to split domains whose servers are dead", "≤ 2 ms"),
        "split": ("a name of a split domain, whose server is behind a subnet router on the same machine: the median of 100 questions", "–"),
    },
    measured=MEASURED,
    programs=["nft"],
    runs=20,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
