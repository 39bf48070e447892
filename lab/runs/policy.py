"""`make policy`: how soon a change of the policy acts, and what rules cost, measured with real daemons. Options and output: figures.py."""

import sys

from .figures import Figures
from .policy_measurements import MEASURED, SEVERAL

FIGURES = Figures(
    name="policy",
    summary="measures how soon a change of the policy acts, and what rules cost",
    lines={
        "policy": ("a policy that forbids a stream: from the coordinator's answer to the last packet at the peer", "≤ 2 s"),
        "disabled": ("a device that is disabled: the same", "≤ 2 s"),
        "throughput": ("one TCP stream with 1,000 rules at both ends, compared with an open policy", "≥ 95 %"),
    },
    measured=MEASURED,
    several=SEVERAL,
    programs=["iperf3"],
    runs=20,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
