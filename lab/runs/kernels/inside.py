"""Runs the parts in the virtual machine, and sends what they found: one message when a part begins, some while it runs, and its result.

A part that fails is a result with an error, and the next part runs.
"""

import time
import traceback

from ...hosts.net import Lab
from ...hosts.programs import ROOT
from ...hosts.vm import guest
from ...hosts.wait import LabError
from . import facts, lab_tests, links, network, rust_tests, wireguard

RUN = {"facts": facts.run, "tests": rust_tests.run, "network": network.run, "lab": lab_tests.run, "wireguard": wireguard.run, "links": links.run}


def main():
    job = guest.job()
    for part in job["parts"]:
        guest.send("begin", part=part)
        began = time.monotonic()
        try:
            with Lab(ROOT / "target" / "lab" / f"kernels-{part}") as lab:
                found = RUN[part](lab, job, lambda text, part=part: guest.send("progress", part=part, text=text))
        except (LabError, OSError, KeyError, ValueError) as error:
            traceback.print_exc()
            found = {"ok": False, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        guest.send("result", part=part, seconds=round(time.monotonic() - began, 1), **found)
    guest.send("end")


if __name__ == "__main__":
    main()
