"""`make lanes`: what lanes that open by load give and cost, measured with real daemons. Options and output: figures.py."""

import sys

from .figures import Figures
from .lanes_measurements import MEASURED, SEVERAL

FIGURES = Figures(
    name="lanes",
    summary="measures what lanes that open by load give and cost",
    lines={
        "four-cubic": ("throughput of four streams (CUBIC) by `--lanes auto`, lanes open, compared with one lane", "≥ 120 %"),
        "four-bbr": ("the same with BBR", "≥ 120 %"),
        "single": ("throughput of one stream by `--lanes auto`, compared with one lane", "≥ 97 %"),
        "single-after": ("the same right after four streams, whose lanes are still open", "≥ 97 %"),
        "order": ("segments in all these streams that came behind a missing one: out of order, or after a loss", "0"),
        "relayed": ("throughput of four streams through a relay on the same cores, compared with the direct path, two lanes each", "≥ 70 %"),
        "idle-threads": ("threads of an idle node by `--lanes auto`, more than with one lane", "0"),
        "idle-memory": ("its memory (RSS), more than with one lane", "≤ 50 kB"),
    },
    measured=MEASURED,
    several=SEVERAL,
    programs=["iperf3", "nft"],
    runs=10,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
