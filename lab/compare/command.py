"""`python3 -m lab bench | report | compare | scenario`.

    python3 -m lab bench --quick                  `make bench`: at most twenty minutes
    python3 -m lab bench                          `make bench-full`: hours; --minutes and --resume split it into sessions
    python3 -m lab bench --systems bare,taut-aes --profiles low --work ping,tcp-1 --rounds 5 --seed 3
    python3 -m lab report [FILE] [--output PAGE]  makes the page of a file of results;  report --check [PAGE]  lists what a page lacks
    python3 -m lab compare A.json B.json          exit status 0 if both rank alike
    python3 -m lab scenario [NAME]                a published set-up

Exit status: 0 success, 1 failure or nothing measured, 2 usage error, 130 interrupted.
"""

import json
import sys
from pathlib import Path

from ..hosts import netem
from ..hosts.wait import LabError
from . import pages, plan, ranking, results, scenarios
from .pages import FILE, OUT, PAGE, shown, line_printer
from .session import measure

QUICK_MINUTES, QUICK_ROUNDS, FULL_ROUNDS = 20.0, 3, 5


class UsageError(LabError):
    """A usage error: an argument with an unknown name."""


# --- arguments ---


def add(verbs):
    """Adds the verbs of the comparison to those of the lab."""
    verb = _verb(verbs, "bench", bench, "Compares systems on links with kinds of work; writes target/bench/results.json and report.html.")
    verb.add_argument("--quick", action="store_true", help=f"short works, at most {QUICK_MINUTES:g} minutes")
    verb.add_argument("--systems", help="names, separated by commas (python3 -m lab peers lists them)")
    verb.add_argument("--profiles", help="names of links, separated by commas")
    verb.add_argument("--work", help="names of kinds of work, separated by commas")
    verb.add_argument("--placements", help=f"what the emulator acts on, of {', '.join(plan.PLACEMENTS)} (default {plan.PACKETS})")
    verb.add_argument("--tuned", action="store_true", help="add a second series with tuned hosts")
    _common(verb)
    verb = _verb(verbs, "scenario", scenario, "Runs a published set-up; without a name, lists all of them.")
    verb.add_argument("name", nargs="?")
    verb.add_argument("--quick", action="store_true", help="two seconds instead of ten")
    verb.add_argument("--systems", help="only these systems of the set-up")
    _common(verb)
    verb = _verb(verbs, "report", report, "Makes the page of a file of results, or checks one.")
    verb.add_argument("file", nargs="?", type=Path, help="file of results, or page to check")
    verb.add_argument("--output", type=Path, help="the page")
    verb.add_argument("--check", action="store_true", help="only list what the page lacks; exit status 1 if it lacks anything")
    verb = _verb(verbs, "compare", compare, "Tells whether two files of results rank the systems alike.")
    verb.add_argument("first", type=Path)
    verb.add_argument("second", type=Path)


def _verb(verbs, name, does, about):
    verb = verbs.add_parser(name, help=about, description=about)
    verb.set_defaults(run=_guarded(does))
    verb.add_argument("--json", action="store_true", help="print the outcome as JSON to standard output, everything else to standard error")
    return verb


def _common(verb):
    verb.add_argument("--rounds", type=_count, help="number of rounds")
    verb.add_argument("--seed", type=int, default=1, help="seed of the order and of the links (default 1)")
    verb.add_argument("--congestion", default="cubic", help="TCP congestion control in all hosts (default cubic)")
    verb.add_argument("--minutes", type=float, help="start nothing that would not end within this time")
    verb.add_argument("--resume", action="store_true", help="continue the existing file")
    verb.add_argument("--output", type=Path, help="file of results; the page is written next to it")


def _count(text):
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _guarded(does):
    """Returns a command that reports errors as one sentence and an exit status."""

    def guarded(args):
        try:
            return does(args)
        except UsageError as error:
            print(f"lab: {error}", file=sys.stderr)
            return 2
        except LabError as error:
            print(f"lab: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("lab: interrupted; the hosts are gone, what was measured is kept, and --resume goes on", file=sys.stderr)
            return 130

    return guarded


# --- bench and scenario ---


def bench(args):
    """Runs the comparison or a part of it."""
    systems, works, profiles = field()
    picked = any((args.systems, args.profiles, args.work, args.placements, args.tuned))
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else FULL_ROUNDS)
    minutes = args.minutes or (QUICK_MINUTES if args.quick and not picked else None)
    names = with_bare(choose("system", args.systems, systems))
    profiles = {name: profiles[name] for name in choose("profile", args.profiles, profiles)}
    works = {name: works[name] for name in choose("kind of work", args.work, works)}
    placements = choose("placement", args.placements, plan.PLACEMENTS) if args.placements else (plan.PACKETS,)

    def stages(one):
        if picked:
            able = tuple(name for name in names if name in one.known.systems)
            return plan.picked(parts(one.known, able, placements, args.tuned), rounds)
        return plan.quick(one.known, rounds, one.best) if args.quick else plan.full(one.known, rounds, netem.available())

    if picked and not args.systems:
        names = tuple(name for name in names if not systems[name].variant)
    chosen = [systems[name] for name in names] if picked else list(systems.values())
    return measure(args, chosen, list(works.values()), profiles, stages, rounds, minutes, "", args.output or FILE)


def parts(known, systems, placements, tuned):
    """Returns the chosen parts. Plain links have only the first placement."""
    both = (False, True) if tuned else (False,)
    emulated, plain = known.emulated(known.profiles), tuple(name for name in known.profiles if not known.profiles[name].emulated)
    every = (plan.Part(systems, emulated, tuple(known.works), placements, both), plan.Part(systems, plain, tuple(known.works), (plan.PACKETS,), both))
    return [part for part in every if part.profiles]


def scenario(args):
    """Runs one of the named set-ups."""
    there = {one.name: one for one in scenarios.ALL}
    if not args.name:
        print(json.dumps({name: one.about for name, one in there.items()}, indent=1) if args.json else "\n".join(f"{name:<22} {one.about}" for name, one in there.items()))
        return 0
    chosen = there[choose("scenario", args.name, there)[0]]
    systems, works, profiles = field()
    systems |= {system.name: system for system in chosen.systems()}
    wanted = with_bare(choose("system", args.systems, systems)) if args.systems else None
    profiles = {name: profiles[name] for name in choose("profile", ",".join(chosen.profiles), profiles)}
    works = list(chosen.works) if chosen.works is not None else list(works.values())
    rounds = args.rounds or (min(2, chosen.rounds) if args.quick else chosen.rounds)
    usual = plan.Available(systems, {work.name: work for work in works}, profiles)
    names = [name for name in chosen.names(usual) if name in systems and (wanted is None or name in wanted)]

    def stages(one):
        return plan.picked(chosen.parts(one.known), rounds)

    file = args.output or OUT / f"{chosen.name}.json"
    return measure(args, [systems[name] for name in names], works, profiles, stages, rounds, args.minutes, chosen.name, file)


def field():
    """Returns systems, works and profiles of the lab, by name."""
    from ..hosts import profiles
    from ..nodes import systems
    from ..traffic import work

    return {one.name: one for one in systems.FIELD}, {one.name: one for one in work.ALL}, profiles.load()


def choose(kind, text, there):
    """Returns the names in `text`, all names without it. Raises an error that lists the known names if one is unknown."""
    if not text:
        return tuple(there)
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [name for name in names if name not in there]
    if unknown or not names:
        raise UsageError(f"there is no {kind} {', '.join(map(repr, unknown)) or 'without a name'}; there are: {', '.join(there)}")
    return names


def with_bare(names):
    """Adds the bare link, which is in every round: its figures are the reference for the others."""
    return names if plan.BARE in names else (plan.BARE, *names)


# --- report and compare ---


def report(args):
    """Makes the page of a file, or lists what a page lacks."""
    from .report import check

    if args.check:
        page = args.file or args.output or PAGE
        found = check.lacks(page)
        print(json.dumps({"schema": 1, "page": str(page), "lacks": found}) if args.json else "\n".join(found) or f"{shown(page)}: every plot has units, legend, n, interval and sentence")
        return 1 if found else 0
    file = args.file or FILE
    page = args.output or pages.beside(file)
    print_line = line_printer(args.json)
    made = pages.make(file, page, print_line)
    if args.json:
        print(json.dumps({"schema": 1, "results": str(file), "report": str(page) if made else None}))
    return 0 if made else 1


def compare(args):
    """Exit status 0 if enough pairs keep their order, 1 if not, 2 if no pair can be judged."""
    verdict = ranking.compare(results.load(args.first), results.load(args.second))
    if args.json:
        outcome_json = {"schema": 1, "judged": verdict.judged, "kept": verdict.kept, "only_one": verdict.only_one, "overlapping": verdict.overlapping}
        print(json.dumps(outcome_json | {"share": verdict.share, "enough": ranking.ENOUGH, "turned": verdict.turned, "agrees": verdict.agrees}))
    else:
        print(ranking.details(verdict))
    return verdict.code()
