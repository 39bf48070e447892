"""`make routes`: how soon another subnet router takes over, what forwarding costs, and what is left on a host, measured with real daemons. Options and output: figures.py."""

import sys

from .figures import Figures
from .routes_measurements import MEASURED

FIGURES = Figures(
    name="routes",
    summary="measures how soon another subnet router takes over, what forwarding costs, and what is left on a host",
    lines={
        "new": ("a subnet router is cut off: until a new connection is open through the other one", "≤ 2 s"),
        "existing": ("the same with `--snat off`: until a stream of pings is answered again", "≤ 2 s"),
        "forwarded": ("one TCP stream to a host behind a router, compared with one to the router itself", "≥ 60 %"),
        "left": ("what a router leaves on its host after `down`, SIGTERM or SIGKILL and a start", "0"),
    },
    measured=MEASURED,
    programs=["iperf3", "nft"],
    runs=20,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
