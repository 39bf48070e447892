"""The tests of the crates of sys/, which ask the kernel itself: the built test programs run one after the other."""

import re
import subprocess

# Longest time of a program, in seconds of an emulated processor.
LIMIT_S = 900
# Lines of the output of a failed test that go into the result.
_LINES = 12
_RESULT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)


def run(_lab, job, say):
    counts, failed = {"ok": 0, "FAILED": 0, "ignored": 0}, []
    for name, program, folder in job["tests"]:
        output, ended = _output(program, folder)
        found = _RESULT.findall(output)
        for _, verdict in found:
            counts[verdict] += 1
        failed += [{"program": name, "test": test, "output": _about(test, output)} for test, verdict in found if verdict == "FAILED"]
        if ended is None or (ended and not any(verdict == "FAILED" for _, verdict in found)):
            failed.append({"program": name, "test": "", "output": f"no end after {LIMIT_S} s" if ended is None else f"ended with {ended}: {output[-400:]}"})
        say(f"{name}: {sum(verdict == 'ok' for _, verdict in found)} of {len(found)} passed")
    known = set(job["known"])
    return {
        "ok": all(f"{one['program']}::{one['test']}" in known for one in failed) and counts["ok"] > 0,
        "passed": counts["ok"],
        "failed": failed,
        "ignored": counts["ignored"],
    }


def _output(program, folder):
    """Returns (output, exit status or None)."""
    try:
        done = subprocess.run([program], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), None
    return done.stdout.decode(errors="replace"), done.returncode


def _about(test, output):
    """Returns what a failed test wrote."""
    _, found, rest = output.partition(f"---- {test} stdout ----")
    return "\n".join(rest.strip().splitlines()[:_LINES]) if found else ""
