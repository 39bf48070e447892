#!/usr/bin/env python3
"""Runs the stages of a check side by side and prints where the time went, also when a stage failed.

    tools/stages.py day|fast|night          runs every stage of `make test`, `make test-fast` or `make test-night`
    tools/stages.py day|fast|night NAME…    runs only these stages, in their order
    tools/stages.py --list                  prints the stages

A stage is a recipe of the Makefile. Its output goes to target/stages/NAME.log and is printed in one piece when the stage ends; once a minute the last line of
each running stage's log is printed. Exit status: 0 when every stage passed, 1 when one failed, 130 after an interrupt. The run ends with the names of what failed,
and of the lab's tests that failed beside others and passed alone (lab/tests/parts.py). Its own tests: test_stages.py.
"""

import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "stages"
# The file with the lab's tests that run again alone, and the variable that names it.
AGAIN = LOGS / "again.txt"
AGAIN_VARIABLE = "TAUT_LAB_AGAIN"
# Seconds that `make test` may take on two cores, from a clean clone with a filled registry cache: longer checks are not run before each change.
BUDGET_S = {"day": 1500}
# Lines with which pytest, cargo's tests, the compiler and unittest name what failed.
FAILURE = re.compile(r"(FAILED|ERROR|FAIL:|ERROR:) \S|test .* \.\.\. FAILED$|thread .* panicked at |(error|warning)(\[\w+\])?: ")
# Lines with which pytest and Rust's assertions say what they saw.
DETAIL = re.compile(r"E {3}|assertion |  left: | right: ")
# Seconds between two reports of progress: a run that is silent for longer looks as if it hung.
PROGRESS_S = 60
# Seconds between two looks at the running stages: short against every stage, and without cost.
LOOK_S = 0.05
# Characters of a line of progress.
PROGRESS_WIDTH = 120
# Lines of one stage that the end of a run repeats: enough to know what broke, and short enough to see the table above.
FAILURES_SHOWN = 20
# The same for what the tests saw: the events of two nodes, and a little more. Where only the end of the output is kept, the cause is in it.
DETAILS_SHOWN = 60
# Characters of such a line.
DETAIL_WIDTH = 400


@dataclasses.dataclass(frozen=True)
class Stage:
    """One recipe of the Makefile, and what must be over before it starts."""

    name: str
    # Stages that must have passed. Without them this one is not run.
    needs: tuple = ()
    # Stages that must have ended, however they ended.
    after: tuple = ()
    # Stages that hold the same thing run one after the other: cargo locks its target directory.
    holds: str = ""
    # Niceness (nice(1)): stages that only compute yield to the lab, whose tests wait for each other's programs.
    nice: int = 0


def day():
    """Every test except those of the night. The programs compile first; then the lab's tests wait for their networks while the Rust tests compile, and run, and
    lints use the processor."""
    ready, programs, built = ("setup-test",), ("build-programs",), ("build-tests",)
    lints = ("arrows", "format", "deny", "clippy", "doc")
    return (
        Stage("setup-test"),
        Stage("arrows", needs=ready),
        Stage("format", needs=ready),
        Stage("deny", needs=ready),
        Stage("peers-day", needs=ready),
        Stage("build-programs", needs=ready, holds="cargo"),
        Stage("run-lab", needs=programs, after=("peers-day",)),
        Stage("build-tests", needs=programs, holds="cargo", nice=5),
        Stage("run-rust", needs=built, nice=5),
        Stage("clippy", needs=built, holds="cargo", nice=10),
        Stage("doc", needs=built, after=("clippy",), holds="cargo", nice=10),
        Stage("run-doctests", needs=built, after=("doc",), holds="cargo", nice=10),
        Stage("run-lab-alone", needs=programs, after=(*lints, "run-lab", "run-rust", "run-doctests")),
    )


def fast():
    """Unit tests and the lab's tests that need no root."""
    built = ("build-tests",)
    return (Stage("build-tests"), Stage("run-rust-unit", needs=built), Stage("run-lab-rootless", needs=built))


def night():
    """The tests that are too slow for each change, one after the other: some of them fill the machine."""
    names = (
        "build-tests",
        "peers-night",
        "releases",
        "run-rust-night",
        "run-lab-night",
        "chaos",
        "flap",
        "bench-micro",
        "deny",
        "advisories",
        "unused",
        "minimum-rust",
        "fuzz",
        "check-targets",
        "test-targets",
    )
    first = Stage("setup-night")
    return (first, *(Stage(name, needs=(first.name,), after=names[:number]) for number, name in enumerate(names)))


RUNS = {"day": day, "fast": fast, "night": night}


@dataclasses.dataclass
class Record:
    """How one stage went. Times are in seconds; `start` counts from the start of the run."""

    stage: Stage
    start: float = 0.0
    seconds: float = 0.0
    processor: float = 0.0
    result: str = "waiting"

    @property
    def over(self):
        return self.result not in ("waiting", "running")


class Run:
    """Starts each stage as soon as it may start, and collects what ended. `command` turns a stage into the words of its program."""

    def __init__(self, stages, command, out=sys.stdout, logs=LOGS, progress=PROGRESS_S):
        self.records = {stage.name: Record(stage) for stage in stages}
        self.command = command
        self.out = out
        self.logs = logs
        self.progress = progress
        self.began = self.reported = time.monotonic()
        self._running = {}

    def finish(self):
        """Runs all stages; returns true if every one passed."""
        self.logs.mkdir(parents=True, exist_ok=True)
        try:
            while not all(record.over for record in self.records.values()):
                self._start_what_may()
                self._collect()
        finally:
            self._stop_all()
        return all(record.result == "passed" for record in self.records.values())

    def _start_what_may(self):
        for record in self.records.values():
            if record.result != "waiting":
                continue
            missing = [name for name in record.stage.needs if self._result(name) not in ("passed", "waiting", "running")]
            if missing:
                record.result = "not run"
                self._say(f"{record.stage.name}: not run, because {missing[0]} did not pass")
            elif self._may_start(record.stage):
                self._start(record)

    def _result(self, name):
        """The result of a stage; a stage that is not part of this run counts as passed."""
        return self.records[name].result if name in self.records else "passed"

    def _may_start(self, stage):
        held = {record.stage.holds for record in self.records.values() if record.result == "running"}
        ended = all(self._result(name) not in ("waiting", "running") for name in stage.after)
        return ended and all(self._result(name) == "passed" for name in stage.needs) and not (stage.holds and stage.holds in held)

    def _start(self, record):
        record.result, record.start = "running", time.monotonic() - self.began
        path = self.log(record)
        self._say(f"{record.stage.name}: started; its output goes to {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
        with self.log(record).open("wb") as log:
            words = ["nice", "-n", str(record.stage.nice), *self.command(record.stage)]
            # A process group and no session: the kernel shares the processor out between sessions first (sched(7), autogroup), and only within one by niceness.
            process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
        self._running[process.pid] = (record, process)

    def _collect(self):
        """Waits for the next stage that ends, if one is running."""
        if not self._running:
            return
        # Unlike Popen.wait, this tells the CPU time of the stage and all that it waited for.
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid not in self._running:
            self._report_progress()
            time.sleep(LOOK_S)
            return
        record, process = self._running.pop(pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        record.seconds = time.monotonic() - self.began - record.start
        record.processor = usage.ru_utime + usage.ru_stime
        record.result = "failed" if process.returncode else "passed"
        self._say(f"{record.stage.name}: {record.result} after {record.seconds:.0f} s; its output:")
        self.out.write(self.log(record).read_text(errors="replace"))
        self.out.flush()

    def _report_progress(self):
        """Prints the last line of each running stage's log if it is time to."""
        now = time.monotonic()
        if now - self.reported < self.progress:
            return
        self.reported = now
        for record, _ in self._running.values():
            seconds = now - self.began - record.start
            self._say(f"{record.stage.name}: running for {seconds:.0f} s: {last_line(self.log(record))}")

    def _stop_all(self):
        """After an interrupt: ends what still runs, so that nothing is left behind, and waits for it."""
        for record, process in self._running.values():
            record.result = "stopped"
            record.seconds = time.monotonic() - self.began - record.start
            os.killpg(process.pid, signal.SIGTERM)
        for _, process in self._running.values():
            process.wait()
        self._running.clear()

    def log(self, record):
        """The file with the output of a stage."""
        return self.logs / f"{record.stage.name}.log"

    def _say(self, line):
        print(f"==> {line}", file=self.out, flush=True)


def last_line(path):
    """The last line of a log that is not empty, without what would move the cursor."""
    lines = [line for line in re.split(r"[\r\n]", path.read_text(errors="replace")[-4096:]) if line.strip()]
    return "".join(filter(str.isprintable, lines[-1]))[:PROGRESS_WIDTH] if lines else "no output yet"


def table(records, seconds):
    """The stages with their times, as lines; the share of the cores tells how much of the run was waiting."""
    cores = len(os.sched_getaffinity(0))
    yield f"{'stage':<16}{'start s':>9}{'seconds':>9}{'CPU s':>9}  result"
    for record in sorted(records, key=lambda record: (not record.over, record.start)):
        yield f"{record.stage.name:<16}{record.start:>9.0f}{record.seconds:>9.0f}{record.processor:>9.0f}  {record.result}"
    processor = sum(record.processor for record in records)
    busy = processor / (seconds * cores) if seconds else 0
    yield f"{'total':<16}{'':>9}{seconds:>9.0f}{processor:>9.0f}  {busy:.0%} of {cores} cores"


def failures(log):
    """The lines of a failed stage's log that name what failed and what its tests saw; its last line if none does."""
    lines = log.splitlines()
    found = _first(lines, FAILURE, FAILURES_SHOWN)
    return [*(line[:DETAIL_WIDTH] for line in _first(lines, DETAIL, DETAILS_SHOWN)), *found] or lines[-1:]


def _first(lines, pattern, most):
    found = [line for line in lines if pattern.match(line)]
    hidden = len(found) - most
    return found[:most] + ([f"and {hidden} more lines"] if hidden > 0 else [])


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the stages of each run")
    parser.add_argument("run", nargs="?", choices=RUNS, default="day")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these stages")
    args = parser.parse_args(words)
    if args.list:
        for name, stages in RUNS.items():
            print(f"{name}: {' '.join(stage.name for stage in stages())}")
        return 0
    stages = [stage for stage in RUNS[args.run]() if not args.names or stage.name in args.names]
    unknown = set(args.names) - {stage.name for stage in stages}
    if unknown:
        parser.error(f"{args.run} has no stage {', '.join(sorted(unknown))}")
    return run(args.run, stages)


def run(name, stages):
    """Runs the stages, prints the table, and returns the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    AGAIN.unlink(missing_ok=True)
    if {"run-lab", "run-lab-alone"} <= {stage.name for stage in stages}:
        os.environ[AGAIN_VARIABLE] = str(AGAIN)
    going = Run(stages, lambda stage: ["make", "--no-print-directory", stage.name])
    status = 130
    try:
        status = 0 if going.finish() else 1
    except KeyboardInterrupt:
        print("==> interrupted", flush=True)
    seconds = time.monotonic() - going.began
    print("\n".join(["", *table(going.records.values(), seconds)]))
    if seconds > BUDGET_S.get(name, seconds):
        print(f"stages: {seconds:.0f} s are more than the {BUDGET_S[name]} s that this run may take on two cores")
    for record in going.records.values():
        if record.result == "failed":
            print("\n".join([f"stages: {record.stage.name} failed:", *(f"  {line}" for line in failures(going.log(record).read_text(errors="replace")))]))
    if AGAIN.exists():
        print(f"stages: failed beside others, and run again alone: {' '.join(AGAIN.read_text().split())}")
    missed = [record.stage.name for record in going.records.values() if record.result != "passed"]
    if missed:
        print(f"stages: did not pass: {' '.join(missed)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
