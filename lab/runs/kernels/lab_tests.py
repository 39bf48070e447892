"""Tests of the lab, run in the virtual machine by pytest."""

import re
import subprocess
import sys
import threading

from ...hosts.vm import guest

# Longest time of all of them, in seconds of an emulated processor.
LIMIT_S = 2400
_RESULT = re.compile(r"^(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED)")


def run(_lab, job, say):
    words = [job.get("pytest") or sys.executable, "-u", "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short", *job["lab"]]
    say(f"{len(job['lab'])} tests of the lab")
    # wg-quick takes the kernel's WireGuard where it can be loaded. These tests are about ours.
    with guest.without_module("wireguard"):
        verdicts, output, status = _watched(words, say)
    print(output)
    found = {"ok": status == 0 and bool(verdicts), "tests": verdicts, "output": "" if status == 0 else output[-3000:]}
    return found if status is not None else {**found, "error": f"no end after {LIMIT_S} s"}


def _watched(words, say):
    """Runs pytest, and says each verdict; returns ({test: verdict}, output, exit status), without a status after `LIMIT_S`."""
    verdicts, lines = {}, []
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tests:
        # On SIGTERM pytest removes the labs and ends.
        limit = threading.Timer(LIMIT_S, tests.terminate)
        limit.start()
        for line in tests.stdout:
            lines.append(line)
            if found := _RESULT.match(line):
                verdicts[found[1]] = found[2].lower()
                say(f"{found[1].rpartition('::')[2]}: {verdicts[found[1]]}")
        in_time = limit.is_alive()
        limit.cancel()
    return verdicts, "".join(lines), tests.returncode if in_time else None
