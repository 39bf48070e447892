"""The rounds: each visit is laid out, started, measured, ended. A failure becomes a row and stops nothing else; existing rows are not measured again."""

import dataclasses
import functools
import time
import zlib

from ..measure import machine
from ..measure.clock import Pace
from . import cost, plan, testbed
from .results import SCHEMA, check_resumable, key_of, time_made, unit
from .rows import attempts, details, limit, outline, row_of, error_text
from .summary import Results

# Attempts at a measurement that other programs disturb; longest wait for an idle machine between them, in seconds, in a full and in a
# quick run.
TRIES, CALM_S, QUICK_CALM_S = 2, 20, 3
# Failed starts on a link after which a system is not tried there again; and in total, if it never started.
GIVE_UP = 2
# Limits in seconds: for the start of a system, and for a measurement, in addition to four times its estimate. Most waits inside them end
# earlier, after 60 s, with a message that says more.
START_LIMIT_S, WORK_LIMIT_S = 240, 240
# These two limits in a quick run, just above those of the waits inside.
QUICK_START_LIMIT_S, QUICK_WORK_LIMIT_S = 75, 90
_NO_START = "did not start: "


class Comparison:
    """One run of everything. `stages` is the plan, set when the available systems and works are known (`known`)."""

    def __init__(self, systems, works, profiles, place, *, seed=1, quick=False, scenario="", rounds=1, tries=TRIES):
        self.systems, self.works, self.profiles = _named(systems), _named(works), profiles
        self.place, self.seed, self.quick, self.scenario, self.rounds, self.tries = place, seed, quick, scenario, rounds, tries
        self.lacking = {"systems": _lacking(self.systems), "works": _lacking(self.works)}
        self.known = plan.Available(self._able("systems", self.systems), self._able("works", self.works), profiles)
        self.stages, self.runs, self.chosen, self.offloads, self.sittings = [], [], [], {}, 1
        self.start_limit_s, self.work_limit_s = (QUICK_START_LIMIT_S, QUICK_WORK_LIMIT_S) if quick else (START_LIMIT_S, WORK_LIMIT_S)
        self._came_up, self._failed, self._in_time, self._chooses = set(), {}, True, False

    def _able(self, kind, there):
        return {name: one for name, one in there.items() if not self.lacking[kind][name]}

    # --- the order ---

    def run(self, print_line, keep=lambda: None, minutes=None):
        """Runs all missing rows, or what fits into `minutes`; calls `keep()` after each row. Returns True if all rows exist."""
        pace = Pace()
        for number, stage in enumerate(self.stages):
            visits = self.missing(stage)
            if stage.optional and minutes is not None and pace.minutes() + pace.expected_minutes(self._seconds(visits)) > minutes:
                print_line(f"left out, because it would not fit into {minutes:g} minutes: {stage.what}, round {stage.round}")
                continue
            ahead = self._seconds(visits) + sum(self._seconds(self.missing(later)) for later in self.stages[number + 1 :] if not later.optional)
            for visit in visits:
                own = self._seconds([visit])
                if minutes is not None and pace.minutes() + pace.expected_minutes(own) > minutes:
                    return False
                self._in_time = minutes is None or pace.minutes() + pace.expected_minutes(ahead + own) <= minutes
                print_line(f"{pace.expected_minutes(ahead):.1f} min left: {details(visit)}")
                self.visit(visit, print_line, keep)
                pace.passed(own)
                ahead -= own
            if stage.round == 1 and self._chooses and not self.chosen:
                self.chosen = self.ranked()[: plan.OTHERS]
        return True

    def missing(self, stage):
        """Returns the visits of a stage with the works that have no row yet."""
        done = {key_of(row) for row in self.runs}
        left = []
        for visit in plan.visits(stage, self.known, self.seed):
            works = tuple(work for work, key in zip(visit.works, visit.keys()) if key not in done)
            left += [dataclasses.replace(visit, works=works)] if works else []
        return left

    def left_out(self):
        """Returns the planned visits without a row."""
        return [_visit_in_file(visit, stage) for stage in self.stages for visit in self.missing(stage)]

    def best(self):
        """Returns the best systems besides ours after the first round, or so far during it. If no plan calls this, none are chosen."""
        self._chooses = True
        return self.chosen or self.ranked()[: plan.OTHERS]

    def ranked(self):
        """Ranks the others by the throughput of one TCP stream: each link counts equally, as a share of the best there."""
        others = [name for name in self.known.usual() if name != plan.BARE and not name.startswith("taut")]
        results, score = Results({"runs": self.runs, "works": self.told_works(), "seed": self.seed}), dict.fromkeys(others, 0.0)
        for profile in self.profiles:
            seen = {name: results.figure(profile, name, plan.STREAM) for name in others} if plan.STREAM in self.works else {}
            medians = {name: figure.median for name, figure in seen.items() if figure}
            for name, median in medians.items():
                score[name] += median / max(*medians.values(), 1e-9)
        return sorted(others, key=lambda name: -score[name])

    def _seconds(self, visits):
        return sum(plan.seconds(visit, self.known, self.quick) for visit in visits)

    # --- one visit ---

    def visit(self, visit, print_line, keep):
        """Does all works of a visit. After a failure the rest continues in new hosts, so that the failure affects nothing else."""
        left = visit.works
        while left:
            left = left[self._run_until_failure(dataclasses.replace(visit, works=left), print_line, keep) :]

    def _run_until_failure(self, visit, print_line, keep):
        """Runs the works up to the first failure; returns the number of works that have a row."""
        before, why = len(self.runs), self._hopeless(visit)
        if why:
            print_line(f"  {why.splitlines()[0]}")
        else:
            why = self._started(visit, print_line, keep)
        if why and len(self.runs) == before:
            self.runs += [row_of(visit, work) | {"error": why, "tried": not why.startswith("not tried")} for work in visit.works]
            keep()
        return len(self.runs) - before

    def _started(self, visit, print_line, keep):
        """Starts the system and does the works; returns the reason if it failed."""
        system, phase = self.known.systems[visit.system], "the hosts could not be laid out: "
        # Every error in the adapter of a system counts as a failure of that system, and does not stop the others.
        try:
            with self.place.hosts(visit, self.profiles[visit.profile], self._link_seed(visit)) as (lab, site):
                self.offloads.setdefault(f"{visit.profile}, {visit.placement}", self.place.offloads(site))
                phase, start = _NO_START, time.monotonic()
                with limit(self.start_limit_s, f"the start of {visit.system}", lab.tails):
                    running = system.start(site.hosts, site.helper, visit.mtu)
                    self.place.meet(site, running)
                phase, took = "", round(time.monotonic() - start, 2)
                self._came_up.add(visit.system)
                self._works(visit, lab, site, running, took, print_line, keep)
                with limit(self.start_limit_s, f"the end of {visit.system}", lab.tails):
                    running.stop()
        except Exception as error:
            why, there = f"{phase}{error_text(error)}", (visit.system, visit.profile)
            print_line(f"  {why.splitlines()[0]}")
            self._failed[there] = self._failed.get(there, 0) + (phase == _NO_START)
            return why
        return None

    def _works(self, visit, lab, site, running, took, print_line, keep):
        for name in visit.works:
            row = row_of(visit, name) | {"started_s": took, "payload": getattr(running, "payload", None)}
            self._tries(self.works[name], lab, site, running, row, print_line)
            self.runs.append(row)
            keep()
            if not row["ok"]:
                lab.failed = True
                return

    def _tries(self, work, lab, site, running, row, print_line):
        """Repeats the work if other programs used the machine meanwhile, and if there is time for it besides the plan."""

        def measure(attempt):
            row.update(self._try(work, lab, site, running, self.profiles[row["profile"]]) | {"attempts": attempt})
            print_line(f"  {work.name:<16} {outline(row, work)}")
            return row, row["ok"] and row["disturbed"]

        def calm():
            return cost.calm(running.processes, cost.lab_processes(lab, running), QUICK_CALM_S if self.quick else CALM_S)

        attempts(measure, self.tries if self._in_time else 1, calm)

    def _try(self, work, lab, site, running, link):
        """Does the work once; returns the results for its row."""
        row = {"ok": False, "error": None, "figures": {}}
        before, memory = None, {"before": cost.memory(running.processes, "VmRSS")}
        try:
            # Discards what the link reported before this work.
            testbed.reports(site)
            before = cost.CounterReading(running.processes, cost.lab_processes(lab, running))
            with limit(4 * work.takes(self.quick, link) + self.work_limit_s, work.name, lab.tails):
                row["figures"] = work.run(site, running, self.quick)
            lacks = work.main not in row["figures"]
            row |= {"ok": not lacks, "error": f"the work returned no {work.main}" if lacks else None}
        except Exception as error:
            row["error"] = error_text(error)
        row["cpu"] = cost.CounterReading(running.processes, cost.lab_processes(lab, running)).since(before) if before else {}
        memory |= {"after": cost.memory(running.processes, "VmRSS"), "peak": cost.memory(running.processes, "VmHWM")}
        return row | {"memory_kib": memory, "link": testbed.reports(site), "disturbed": cost.disturbed(row["cpu"])}

    def _hopeless(self, visit):
        """Returns the reason to skip a visit whose system keeps failing, or None."""
        here = self._failed.get((visit.system, visit.profile), 0)
        anywhere = sum(count for (name, _), count in self._failed.items() if name == visit.system)
        if here >= GIVE_UP:
            return f"not tried again: {visit.system} did not start on {visit.profile} {here} times"
        if anywhere >= GIVE_UP and visit.system not in self._came_up:
            return f"not tried again: {visit.system} never started, in {anywhere} tries"
        return None

    def _link_seed(self, visit):
        """Returns a seed that is the same for all systems of a round on a link, so that all meet the same random losses."""
        return zlib.crc32(f"{self.seed} {visit.round} {visit.profile} {visit.placement}".encode())

    # --- the file ---

    def result(self):
        """Returns the content of results.json."""
        return {
            "schema": SCHEMA,
            "made": time_made(),
            "scenario": self.scenario,
            "quick": self.quick,
            "seed": self.seed,
            "rounds": self.rounds,
            "sittings": self.sittings,
            "machine": self._machine,
            "congestion_control": self.place.congestion,
            "offloads": self.offloads,
            "profiles": {name: _facts(profile) for name, profile in self.profiles.items()},
            "systems": self._told_systems,
            "works": self.told_works(),
            "chosen": self.chosen,
            "left_out": self.left_out(),
            "runs": self.runs,
        }

    @functools.cached_property
    def _machine(self):
        return machine.facts()

    @functools.cached_property
    def _told_systems(self):
        return {name: _told_system(system, self.lacking["systems"][name]) for name, system in self.systems.items()}

    def told_works(self):
        return {
            name: {"title": work.title, "main": work.main, "better": work.better, "unit": unit(work.main), "hosts": work.hosts, "lacking": self.lacking["works"][name]}
            for name, work in self.works.items()
        }

    def resume(self, before):
        """Continues where the file with `before` ended, and repeats disturbed rows once. Raises `LabError` if that was a different run."""
        check_resumable(before, self.result())
        self.sittings, self.chosen, self.offloads = before["sittings"] + 1, before["chosen"], before["offloads"]
        self.runs = [row for row in before["runs"] if row["tried"] and not row["disturbed"]]


def _visit_in_file(visit, stage):
    """Returns a planned visit as the file of results contains it."""
    return dataclasses.asdict(visit) | {"works": list(visit.works), "optional": stage.optional}


def _named(ones):
    return {one.name: one for one in ones}


def _lacking(there):
    """Returns for each system or work why it is unavailable, or None. A failing adapter counts as unavailable."""
    found = {}
    for name, one in there.items():
        try:
            found[name] = one.lacking()
        except Exception as error:
            found[name] = f"its adapter is broken: {error_text(error)}"
    return found


def _facts(profile):
    """Returns a link as the file of results contains it."""
    keys = ("title", "about", "mtu", "emulated", "loss", "round_trip_ms")
    content = {key: getattr(profile, key) for key in keys}
    dropped = getattr(profile, "icmp_dropped", getattr(profile, "path_mtu", None) is not None)
    return content | {"link": dict(profile.link), "path_mtu": getattr(profile, "path_mtu", None), "icmp_dropped": bool(dropped)}


def _told_system(system, lacking):
    version = None
    if not lacking:
        try:
            version = system.version()
        except Exception as error:
            version = f"unknown ({error_text(error).splitlines()[0]})"
    return {"title": system.title, "version": version, "lacking": lacking, "variant": bool(system.variant)}
