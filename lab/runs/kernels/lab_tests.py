"""Tests of the lab, run in the virtual machine by pytest."""

import re
import subprocess
import sys

from ...hosts.vm import guest

# Longest time of all of them, in seconds of an emulated processor.
LIMIT_S = 1500
_RESULT = re.compile(r"^(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)


def run(_lab, job, say):
    words = [job.get("pytest") or sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short", *job["lab"]]
    say(f"{len(job['lab'])} tests of the lab")
    try:
        # wg-quick takes the kernel's WireGuard where it can be loaded. These tests are about ours.
        with guest.without_module("wireguard"):
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        return {"ok": False, "error": f"no end after {LIMIT_S} s", "output": (error.stdout or b"").decode(errors="replace")[-2000:]}
    print(done.stdout)
    verdicts = {name: verdict.lower() for name, verdict in _RESULT.findall(done.stdout)}
    return {"ok": done.returncode == 0 and bool(verdicts), "tests": verdicts, "output": "" if done.returncode == 0 else done.stdout[-3000:]}
