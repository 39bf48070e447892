"""Fake systems, works, links and results for tests of the comparison and its report: no root, no network."""

import contextlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from lab.compare import plan, results, run
from lab.compare.testbed import VisitHosts
from lab.hosts.wait import LabError
from lab.nodes.systems.base import Running


class Fake:
    """A system that starts at once, or fails as `fails` says: one message per start, None for a successful one."""

    variant = False

    def __init__(self, name, fails=(), lacks=None):
        self.name, self.title, self.fails, self.lacks, self.starts = name, f"system {name}", list(fails), lacks, 0

    def lacking(self):
        return self.lacks

    def version(self):
        return "1.0"

    def start(self, hosts, helper, mtu):
        self.starts += 1
        why = self.fails[self.starts - 1] if self.starts <= len(self.fails) else None
        if why:
            raise LabError(why)
        return Running(addresses=[host.ipv4 for host in hosts], interface="eth0", processes=[[] for _ in hosts])


class Job:
    """A work that returns `value`, or the result of `does(site, running, quick)`."""

    def __init__(self, name, main="mbps", value=1.0, better="more", hosts=2, alone=False, does=None, takes=1.0, lacks=None):
        self.name, self.title, self.main, self.value, self.better, self.hosts, self.alone = name, f"work {name}", main, value, better, hosts, alone
        self.does, self.length, self.lacks, self.runs = does, takes, lacks, 0

    def lacking(self):
        return self.lacks

    def takes(self, quick, link):
        return self.length

    def run(self, site, running, quick):
        self.runs += 1
        return self.does(site, running, quick) if self.does else {self.main: self.value}


@dataclass(frozen=True)
class Link:
    name: str
    title: str = "a link"
    about: str = "made up"
    link: dict = field(default_factory=dict)
    mtu: int = 1500
    path_mtu: int | None = None
    emulated: bool = False
    loss: float | None = None
    round_trip_ms: float = 0.0


LINKS = {
    "baseline": Link("baseline"),
    "low": Link("low", link={"right": "base 0.3ms delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25%"}, emulated=True, round_trip_ms=4.6),
    "low-loss": Link("low-loss", link={"right": "base 0.3ms delay 2ms loss 0.25%"}, emulated=True, loss=0.0025, round_trip_ms=4.6),
}


class Nowhere(VisitHosts):
    """Sites without hosts. `open` counts the sites that still exist, `seen` lists what was laid out."""

    def __init__(self, logs=None, congestion="cubic", reports=()):
        super().__init__(logs, congestion)
        self.open, self.seen, self.reports = 0, [], list(reports)

    @contextlib.contextmanager
    def hosts(self, visit, profile, seed):
        self.open += 1
        self.seen.append((visit, seed))
        hosts = [SimpleNamespace(name=f"h{n}", ipv4=f"10.0.0.{n}") for n in range(visit.hosts)]
        try:
            yield SimpleNamespace(nodes={}, failed=False, tails=str), SimpleNamespace(hosts=hosts, helper=None, profile=profile, link_reports=lambda: list(self.reports))
        finally:
            self.open -= 1

    def meet(self, site, running):
        pass

    def offloads(self, site):
        return "tso on"


def comparison(systems, works, profiles=None, rounds=1, place=None, **more):
    """Returns a comparison of all systems with all works, in `rounds`."""
    one = run.Comparison(systems, works, profiles or {"baseline": LINKS["baseline"]}, place or Nowhere(), rounds=rounds, tries=1, **more)
    one.stages = plan.picked([plan.Part(tuple(one.known.systems), tuple(one.profiles), tuple(one.known.works))], rounds)
    return one


MACHINE = {"cpu": "a processor", "cores": 2, "kernel": "6.1", "cpu_flags": ["aes"]}
TITLES = {"ping": ("ping, idle", "p50_ms", "less"), "tcp-1": ("TCP, one stream", "mbps", "more")}


def row(system, work, value, number=1, profile="baseline", ok=True, **more):
    """Returns a row of results; `value` is its main figure."""
    main = TITLES.get(work, ("", "mbps", ""))[1]
    made = {
        "round": number, "profile": profile, "placement": "packets", "system": system, "tuned": False, "mtu": None, "work": work, "ok": ok, "tried": True,
        "error": None if ok else "it broke\nand more", "attempts": 1, "figures": {main: value, "bytes": 10**9} if ok else {},
        "cpu": {"capacity_s": 4.0, "machine_s": 2.0, "tunnel_s": [1.0], "applications_s": 0.5, "lab_s": 0.0},
        "memory_kib": {"before": [1000, 1000], "after": [2000, 1000], "peak": [2000, 3000]}, "link": [], "disturbed": False, "payload": 1420, "started_s": 1.0,
    }  # fmt: skip
    return made | more


def results_file(rows, **more):
    """Returns a file of results with these rows and with all names in them."""
    names = {kind: list(dict.fromkeys(each[kind] for each in rows)) for kind in ("system", "work", "profile")}
    works = {}
    for name in names["work"]:
        title, main, better = TITLES.get(name, (f"work {name}", "mbps", "more"))
        works[name] = {"title": title, "main": main, "better": better, "unit": results.unit(main), "hosts": 2, "lacking": None}
    facts = {
        "schema": results.SCHEMA, "made": "2026-01-01 00:00 UTC", "scenario": "", "quick": True, "seed": 1, "rounds": 2, "sittings": 1, "machine": MACHINE,
        "congestion_control": "cubic", "offloads": {"baseline, packets": "tso on"}, "chosen": [], "left_out": [], "works": works, "runs": rows,
        "profiles": {name: run._facts(LINKS.get(name, Link(name))) for name in names["profile"]},
        "systems": {name: {"title": f"system {name}", "version": "1.0", "lacking": None, "variant": False} for name in names["system"]},
    }  # fmt: skip
    return facts | more


@pytest.fixture(autouse=True)
def any_machine(monkeypatch):
    """Makes the tests independent of the machine and its load."""
    monkeypatch.setattr("lab.measure.machine.facts", lambda: MACHINE)
    monkeypatch.setattr("lab.compare.cost.disturbed", lambda cpu: False)


def silent(_):
    pass


def known(systems, works, profiles=("baseline", "low"), variants=()):
    fakes = {name: Fake(name) for name in systems}
    for name in variants:
        fakes[name].variant = True
    return plan.Available(fakes, {work.name: work for work in works}, {name: LINKS.get(name, Link(name)) for name in profiles})


def two(first, second, links=1, turned=0, better="tcp-1"):
    """Returns results of two systems on `links` links with three rounds each; on `turned` of them the order is reversed."""
    rows = []
    for link in range(links):
        left, right = (second, first) if link < turned else (first, second)
        rows += [row(name, better, value + 0.1 * number, number, f"link{link}") for name, value in (("a", left), ("b", right)) for number in (1, 2, 3)]
    return results_file(rows)
