#!/usr/bin/env python3
"""Runs the built Rust test programs side by side. `cargo test` runs them one after the other, although many of them wait.

    tools/rust_tests.py             all test programs, with what they do not ignore
    tools/rust_tests.py --unit      only the unit tests of libraries and programs
    tools/rust_tests.py --night     all test programs with their ignored tests too

Cargo tells which programs there are, and builds those that are not up to date. The output of a program is printed in one piece when it ends; the
slowest programs are listed at the end. By day the lab runs beside them: a failed program is run once more when no other one of them runs, and named if it passes then.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ("cargo", "test", "--workspace", "--locked", "--profile", "ci", "--no-run", "--message-format=json-render-diagnostics")
# Programs at a time on each core. Most tests of the coordinator and of the kernel wait; those of the simulator do not.
PER_CORE = 2
# Programs that take longest, first, so that none of them runs alone at the end.
FIRST = ("scenarios", "taut-path", "kill", "taut-coordinator", "program", "limits", "replay", "bounded")
SLOWEST = 8
# Failed programs that are run once more: a busy machine disturbs one or two.
MOST_AGAIN = 2
# The programs whose tests run a second time with PostgreSQL (tools/with_postgres). The modules `on_server` and `replicas`, and tests with `on_server` in their names, are
# about the server, and are ignored without one; the tests in ABOUT_FILES are about SQLite's files.
ON_POSTGRES = ("taut-coordinator", "kill", "channels")
ABOUT_SERVER = ("on_server", "tests::replicas")
WITH_POSTGRES = ROOT / "tools" / "with_postgres"
# The test that needs a real OpenID provider (tools/with_oidc_provider), and its program.
WITH_PROVIDER = ROOT / "tools" / "with_oidc_provider"
ABOUT_PROVIDER = "at_a_real_provider"
AT_PROVIDER = "taut-coordinator"
ABOUT_FILES = (
    "backup::",
    "fault_n8_a_file_that_a_coordinator_serves",
    "fault_o3_a_log_deleted",
    "fault_o8_a_backup_under_load",
    "fault_o4_a_stuck_reader",
    "a_restored_backup_sends",
    "fault_l5_a_database_of_a_version_without_relays",
    "the_key_that_signs_tickets_survives_restart_and_restore",
    "fault_e4_no_answer_holds_a_secret",
)


def skip(*names):
    """Returns the options that leave out tests."""
    return [word for name in names for word in ("--skip", name)]


def programs(lines, unit=False, postgres=False, provider=False):
    """(name, command, folder of its crate) of each test program in cargo's messages, those that take longest first. With `postgres` and `provider` some of them again."""
    found = []
    for line in lines:
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable") or not message["profile"]["test"]:
            continue
        target = message["target"]
        if unit and "test" in target["kind"]:
            continue
        folder = str(Path(message["manifest_path"]).parent)
        about = skip(*ABOUT_SERVER, ABOUT_PROVIDER) if target["name"] in ON_POSTGRES else []
        found.append((target["name"], [message["executable"], *about], folder))
        if target["name"] in ON_POSTGRES and postgres:
            found.append((target["name"], [str(WITH_POSTGRES), message["executable"], "--include-ignored", *skip(*ABOUT_FILES, ABOUT_PROVIDER)], folder))
        if target["name"] == AT_PROVIDER and provider:
            found.append((target["name"], [str(WITH_PROVIDER), message["executable"], "--include-ignored", ABOUT_PROVIDER], folder))
    return sorted(found, key=lambda one: FIRST.index(one[0]) if one[0] in FIRST else len(FIRST))


class Pool:
    """Runs programs, `size` at a time."""

    def __init__(self, size, options):
        self.size = size
        self.options = options
        self.running = {}
        self.ended = []

    def run(self, programs):
        """Runs all; returns those that failed."""
        waiting, failed = list(programs), []
        while waiting or self.running:
            while waiting and len(self.running) < self.size:
                self._start(waiting.pop(0))
            failed += self._collect()
        return failed

    def _start(self, program):
        _, command, folder = program
        output = tempfile.TemporaryFile()
        options = [option for option in self.options if option not in command]
        process = subprocess.Popen([*command, *options], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.running[process.pid] = (program, process, output, time.monotonic())

    def _collect(self):
        """Waits for a program that ends; returns it in a list if it failed."""
        pid, status, usage = os.wait4(-1, 0)
        if pid not in self.running:
            return []
        program, process, output, began = self.running.pop(pid)
        name, command, _ = program
        process.returncode = os.waitstatus_to_exitcode(status)
        self.ended.append((name, time.monotonic() - began, usage.ru_utime + usage.ru_stime))
        output.seek(0)
        shown = [str(Path(word).relative_to(ROOT)) if Path(word).is_relative_to(ROOT) else word for word in command]
        print(f"     Running {name} ({' '.join(shown)})")
        print(output.read().decode(errors="replace"), flush=True)
        output.close()
        return [program] if process.returncode else []


def run_all(pool, wanted, twice):
    """Runs the programs; with `twice`, a few failed ones run once more, one at a time. Returns the names of those that failed, and of those that passed the second time."""
    failed = pool.run(wanted)
    if not twice or not 0 < len(failed) <= MOST_AGAIN:
        return [name for name, _, _ in failed], []
    print(f"rust tests: these failed beside others, and run again: {' '.join(name for name, _, _ in failed)}", flush=True)
    pool.size = 1
    still = pool.run(failed)
    return [name for name, _, _ in still], [name for name, _, _ in (one for one in failed if one not in still)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unit", action="store_true", help="only unit tests of libraries and programs")
    parser.add_argument("--night", action="store_true", help="the ignored tests too")
    args = parser.parse_args()
    built = subprocess.run(BUILD, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        return built.returncode
    postgres = not args.unit and subprocess.run([WITH_POSTGRES, "--check"], check=False).returncode == 0
    if not args.unit and not postgres:
        print(f"the tests of {' and '.join(ON_POSTGRES)} with PostgreSQL are skipped: the line above says what is missing", flush=True)
    provider = not args.unit and subprocess.run([WITH_PROVIDER, "--check"], check=False).returncode == 0
    if not args.unit and not provider:
        print(f"the test {ABOUT_PROVIDER} is skipped: needs npm's oidc-provider (tools/setup test)", flush=True)
    pool = Pool(PER_CORE * len(os.sched_getaffinity(0)), ["--include-ignored"] if args.night else [])
    wanted = programs(built.stdout.splitlines(), args.unit, postgres, provider)
    failed, disturbed = run_all(pool, wanted, twice=not args.night)
    print(f"{'slowest programs':<24}{'seconds':>9}{'CPU s':>9}")
    for name, seconds, processor in sorted(pool.ended, key=lambda one: -one[1])[:SLOWEST]:
        print(f"{name:<24}{seconds:>9.1f}{processor:>9.1f}")
    if disturbed:
        print(f"rust tests: failed beside others, and passed when run again: {' '.join(disturbed)}")
    print(f"rust tests: {len(wanted)} programs, {len(failed)} failed{': ' + ' '.join(failed) if failed else ''}")
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
