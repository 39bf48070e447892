"""The commands of `make bench`, with fake systems, works and links."""

import argparse
import contextlib
import json
import os
import re

import pytest

from lab.compare import command, plan, results, scenarios, session

from .fake_results import LINKS, Fake, Job, Nowhere, any_machine, known, two  # noqa: F401 (a fixture)


def told_lab(*words):
    parser = argparse.ArgumentParser(prog="lab")
    command.add(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    return args.run(args)


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """A lab with fake systems, works and links; returns the systems, so that a test can change them."""
    systems = {one.name: one for one in (Fake("bare"), Fake("one"), Fake("two"), Fake("gone", lacks="it is not here: make peers"))}
    works = {one.name: one for one in (Job("ping", "p50_ms", 1.0, "less"), Job("tcp-1"))}
    monkeypatch.setattr(command, "field", lambda: (dict(systems), dict(works), {name: LINKS[name] for name in ("baseline", "low")}))
    monkeypatch.setattr(session, "lacks", lambda *_: [])
    monkeypatch.setattr(session.pages, "make", lambda *_: False)
    monkeypatch.setattr(session.testbed, "VisitHosts", Nowhere)
    monkeypatch.setattr(session.congestion, "allowed", lambda name: contextlib.nullcontext(name == "cubic"))
    return systems


def test_a_bench_with_a_broken_system_ends_in_a_file(made_up, tmp_path, capsys):
    made_up["two"].fails = ["no legs"] * 99
    file = tmp_path / "results.json"
    assert told_lab("bench", "--systems", "one,two,gone", "--rounds", 2, "--output", file) == 0
    kept = results.load(file)
    assert {each["system"] for each in kept["runs"]} == {"bare", "one", "two"}, "the bare link is in every round"
    assert {each["ok"] for each in kept["runs"] if each["system"] == "one"} == {True}
    out = capsys.readouterr().out
    assert "left out: gone: it is not here: make peers" in out and "did not start: no legs" in out and re.search(r"min left: round 2", out)


def test_a_quick_bench_and_its_outcome_as_json(made_up, tmp_path, capsys):
    file = tmp_path / "results.json"
    assert told_lab("bench", "--quick", "--json", "--output", file) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"schema": 1, "results": str(file), "report": None, "whole": True, "runs": 39, "failed": 0, "left_out": 0}
    assert "min left" in captured.err
    assert told_lab("bench", "--quick", "--json", "--resume", "--output", file) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 39 and results.load(file)["sittings"] == 2
    assert told_lab("bench", "--profiles", "low", "--rounds", 1, "--output", file) == 0
    assert (len(results.load(file)["runs"]), len(results.load(tmp_path / "results.before.json")["runs"])) == (6, 39), "what was there is kept"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("bench", "--systems", "nonsense"), "there is no system 'nonsense'; there are: bare, one, two, gone"),
        (("bench", "--profiles", "moon"), "there is no profile 'moon'; there are: baseline, low"),
        (("bench", "--work", "ping,sleep"), "there is no kind of work 'sleep'; there are: ping, tcp-1"),
        (("scenario", "nonsense"), "there is no scenario 'nonsense'; there are: p2p-three-containers"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(made_up, capsys, words, why):
    assert told_lab(*words) == 2
    assert why in capsys.readouterr().err


def test_what_the_machine_lacks_is_one_sentence(made_up, monkeypatch, capsys):
    monkeypatch.setattr(session, "lacks", lambda *_: ["needs root, to make network namespaces and TUN devices: run it with sudo"])
    assert told_lab("bench") == 1
    assert capsys.readouterr().err == "lab: needs root, to make network namespaces and TUN devices: run it with sudo\n"


def test_without_root_or_a_program_nothing_begins(monkeypatch):
    monkeypatch.setattr("lab.compare.session.needs.missing", lambda *_: ["needs root"])
    assert session.lacks({}) == ["needs root"]
    monkeypatch.setattr("lab.compare.session.needs.missing", lambda *_: [])
    monkeypatch.setenv("TAUT_BIN_DIR", "/nonexistent")
    assert session.lacks({"baseline": LINKS["baseline"]}) == []
    assert "no program linkbox" in session.lacks(LINKS)[0]
    monkeypatch.setattr("lab.compare.session.netem.available", lambda: False)
    assert session.lacks({"baseline": LINKS["baseline"]}, "packets,netem") == ["this kernel has no netem: modprobe sch_netem, or another placement"]


def test_an_unknown_congestion_control_is_refused(made_up, capsys):
    assert told_lab("bench", "--congestion", "reno9") == 1
    assert "no congestion control reno9" in capsys.readouterr().err


def test_nothing_that_can_be_had_is_a_failure(made_up, capsys, tmp_path):
    for system in made_up.values():
        system.lacks = "not here"
    assert told_lab("bench", "--output", tmp_path / "results.json") == 1
    assert "no system that was asked for can be had here" in capsys.readouterr().err


def test_an_interrupted_bench_says_how_to_go_on(made_up, monkeypatch, tmp_path, capsys):
    def interrupted(site, running, quick):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "run", lambda self, *rest: interrupted(*rest) if self.name == "tcp-1" else {"p50_ms": 1.0})
    assert told_lab("bench", "--profiles", "baseline", "--output", tmp_path / "results.json") == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert [each["work"] for each in results.load(tmp_path / "results.json")["runs"]] == ["ping"]


@pytest.mark.parametrize(("turned", "code"), [(0, 0), (1, 1)])
def test_compare_reports_by_its_exit_status(tmp_path, capsys, turned, code):
    for name, count in (("a", 0), ("b", turned)):
        results.save(tmp_path / f"{name}.json", two(10.0, 20.0, 1, count))
    assert told_lab("compare", tmp_path / "a.json", tmp_path / "b.json", "--json") == code
    assert json.loads(capsys.readouterr().out)["agrees"] == (code == 0)
    assert told_lab("compare", tmp_path / "a.json", tmp_path / "none.json") == 1
    assert "cannot be read" in capsys.readouterr().err


def test_scenarios_are_listed_by_name_and_run(made_up, capsys, tmp_path, monkeypatch):
    assert told_lab("scenario", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == [one.name for one in scenarios.ALL]
    monkeypatch.setattr(scenarios.Streams, "run", lambda self, site, running, quick: {"mbps": 1.0, "bytes": 1})
    monkeypatch.setattr(scenarios.Streams, "lacking", lambda self: None)
    assert told_lab("scenario", "p2p-three-containers", "--quick", "--systems", "one", "--output", tmp_path / "s.json") == 0
    kept = results.load(tmp_path / "s.json")
    assert kept["scenario"] == "p2p-three-containers" and {each["work"] for each in kept["runs"]} == {"tcp-1-to-2", "tcp-1-to-3"}
    assert {each["system"] for each in kept["runs"]} == {"bare", "one"} and kept["rounds"] == 2


def test_every_scenario_has_a_plan():
    field = known(["bare", "taut-aes", "taut-lanes-2", "one"], [Job("ping"), Job("tcp-1")], ("baseline", "low", "medium", "high", "jumbo"), variants=["taut-lanes-2"])
    for one in scenarios.ALL:
        works = {work.name: work for work in one.works} if one.works is not None else field.works
        there = plan.Available(field.systems, works, field.profiles)
        seen = plan.visits(plan.Stage(1, lambda: one.parts(there)), there, 1)
        assert {"bare", "taut-aes"} <= {visit.system for visit in seen}, one.name
        assert one.seconds(there, True) < one.seconds(there, False) or one.works is None


def test_lanes_go_up_to_the_cores():
    counts = scenarios.lane_counts()
    assert counts[:2] == [1, 2] and counts[-1] <= max(2, os.cpu_count())
