"""A session of a comparison: its requirements, its interruption, its files. Every exit removes the hosts and writes the file."""

import contextlib
import json
import os
import signal

from ..hosts import congestion, leftovers, needs, netem
from ..hosts.programs import binary
from ..hosts.wait import LabError
from . import pages, plan, results, run, testbed
from .pages import shown, line_printer

PROGRAMS = ("iperf3", "wg", "ss")
# Programs that an emulator between hosts needs.
EMULATING = ("ethtool", "tc")
# Ctrl-C, a request to terminate, and a closed terminal.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def measure(args, systems, works, profiles, stages, rounds, minutes, scenario_name, file):
    """Runs the comparison, writes the file, makes the page."""
    print_line = line_printer(args.json)
    if found := lacks(profiles, getattr(args, "placements", None)):
        raise LabError("\nlab: ".join(found))
    with interruptible(), tidy(print_line), congestion.allowed(args.congestion) as allowed:
        if not allowed:
            raise LabError(f"this kernel has no congestion control {args.congestion}: modprobe tcp_{args.congestion}, or another by --congestion")
        place = testbed.VisitHosts(file.parent / "logs", args.congestion)
        one = run.Comparison(systems, works, profiles, place, seed=args.seed, quick=args.quick, scenario=scenario_name, rounds=rounds)
        print_lacking(one, print_line)
        one.stages = stages(one)
        if args.resume and file.exists():
            one.resume(results.load(file))
        elif file.exists():
            print_line(f"what was there is kept: {shown(set_aside(file))}")
        whole = run_session(one, print_line, file, minutes)
    print_line("all is measured" if whole else f"no time was left for {len(one.left_out())} visits: --resume goes on")
    return outcome(args, one, whole, file, print_line)


@contextlib.contextmanager
def interruptible():
    """Turns the first signal into one KeyboardInterrupt; later signals do not interrupt the clean-up."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    # Leaves signals that nohup ignores, and signals without a Python handler.
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}

    def interrupted(*_):
        for number in before:
            # Ignored instead of handled: programs that clean up inherit this.
            signal.signal(number, signal.SIG_IGN)
        # The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, b"lab: a moment, the hosts are being removed\n")
        raise KeyboardInterrupt

    try:
        for number in before:
            signal.signal(number, interrupted)
        yield
    finally:
        for number, handler in before.items():
            # After an interrupt the program is about to end; further signals stay ignored while it reports that.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


def run_session(one, print_line, file, minutes):
    """Runs one session. All measured rows are in the file, even if the session ends with an error or an interrupt."""
    # Queries versions now and not between two measurements.
    one.result()
    try:
        return one.run(print_line, lambda: results.save(file, one.result()), minutes)
    finally:
        results.save(file, one.result())


def set_aside(file):
    """Renames the file of the previous run, so that a new run does not overwrite it; replaces an older renamed file."""
    return file.replace(file.with_name(f"{file.stem}.before{file.suffix}"))


def outcome(args, one, whole, file, print_line):
    """Makes the page and prints the final messages."""
    good = sum(row["ok"] for row in one.runs)
    page = pages.beside(file)
    print_line(f"written: {shown(file)} ({len(one.runs)} runs, {len(one.runs) - good} failed)")
    made = pages.make(file, page, print_line)
    if args.json:
        counts = {"runs": len(one.runs), "failed": len(one.runs) - good, "left_out": len(one.left_out())}
        print(json.dumps({"schema": 1, "results": str(file), "report": str(page) if made else None, "whole": whole} | counts))
    return 0 if good else 1


@contextlib.contextmanager
def tidy(print_line):
    """Removes the leftovers of killed runs before measuring, and those of an interrupt at the end."""
    removed = leftovers.clean()
    if removed:
        print_line(f"removed what a killed run had left: {len(removed)} namespaces and directories, from {removed[0]} on")
    try:
        yield
    finally:
        leftovers.clean(own=True)


def print_lacking(one, print_line):
    for kind in ("systems", "works"):
        for name, why in one.lacking[kind].items():
            if why:
                print_line(f"left out: {name}: {why.splitlines()[0]}")
    for kind, there in (("system", one.known.systems), ("kind of work", one.known.works)):
        if not there:
            raise LabError(f"no {kind} that was asked for can be had here; `make peers` and the lines above help")


def lacks(profiles, placements=None):
    """Returns a sentence for each missing requirement of these links and placements."""
    found = needs.missing(*programs(profiles.values()))
    if not found and any(profile.emulated for profile in profiles.values()):
        try:
            binary("linkbox")
        except LabError as error:
            found = [str(error)]
    if not found and plan.NETEM in (placements or "").split(",") and not netem.available():
        found = ["this kernel has no netem: modprobe sch_netem, or another placement"]
    return found


def programs(profiles):
    """Returns the programs that measuring and these links need."""
    wanted = [*PROGRAMS]
    wanted += EMULATING if any(profile.emulated for profile in profiles) else ()
    wanted += ["nft"] if any(getattr(profile, "path_mtu", None) for profile in profiles) else []
    return [name for name in wanted if name in needs.PROGRAMS]
