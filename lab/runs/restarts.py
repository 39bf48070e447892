"""`make restarts`: how long a node is away when its daemon is restarted or crashes, and how soon a daemon answers, measured with real programs. Options and output: figures.py."""

import sys

from .figures import Figures
from .restarts_measurements import MEASURED

FIGURES = Figures(
    name="restarts",
    summary="measures how long a node is away when its daemon is restarted or crashes, and how soon a daemon answers",
    lines={
        "upgrade": ("`systemctl restart`, as for an upgrade: from SIGTERM to the first packet that is answered again; 99 of 100", "≤ 2 s"),
        "crash": ("kill -9, and the pause of the unit (0.2 s): the same", "≤ 2 s"),
        "cold": ("`taut daemon` without a network: from its start to the first answer of `taut status`; 99 of 100", "≤ 50 ms"),
        "joined": ("the same for a member of a network", "≤ 50 ms"),
    },
    measured=MEASURED,
    programs=[],
    runs=200,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
