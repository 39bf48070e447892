"""Cuts the power of a coordinator many times (fault O2).

    python3 -m lab.runs.power_cut [--images N] [--seed N] [--changes N] [--release VERSION]

Ends with `N passed, N failed`; exit status 1 after a failure.
"""

import argparse
import os
import sys

from . import trace
from .run import CHANGES, cut


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000, help="disks that are made (1000)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)), help="of everything that is drawn (a new one)")
    parser.add_argument("--changes", type=int, default=CHANGES, help=f"changes of each client after each start ({CHANGES})")
    parser.add_argument("--release", default="0.1.0", help="the release whose database is upgraded first (0.1.0); `next` for none")
    args = parser.parse_args(words)
    if not trace.works():
        sys.exit("power_cut: strace is missing, or may not trace here (Debian's package strace)")
    result = cut(args.images, args.seed, args.release, args.changes)
    print("\n".join(result.lost[:20]))
    print(f"seed {args.seed}: {result.changes} acknowledged changes, {result.moments} moments, {result.started} images with a start")
    print(f"{result.images - len(result.lost)} passed, {len(result.lost)} failed")
    return 1 if result.lost or not result.images else 0


if __name__ == "__main__":
    sys.exit(main())
