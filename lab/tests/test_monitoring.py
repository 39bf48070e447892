"""The dashboard and the alerts (dist/): every figure that they name exists, the documentation explains each, and Prometheus accepts the rules."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary

DASHBOARD = ROOT / "dist" / "grafana" / "taut-coordinator.json"
RULES = ROOT / "dist" / "prometheus" / "taut-coordinator.rules.yml"
DOCUMENT = ROOT / "docs" / "monitoring.md"
ALERT_TESTS = Path(__file__).parent / "alerts.yml"
# Seconds after which a coordinator that does not answer counts as broken.
PATIENCE_S = 60
# Prometheus makes these figures itself.
OF_PROMETHEUS = {"up"}
NAME = re.compile(r"\b(?:taut_[a-z0-9_]+|process_[a-z0-9_]+|up)\b")
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="the program promtool is missing: tools/setup test, or apt-get install prometheus")


def named(expression):
    """The figures that an expression of PromQL names; words in quotes are labels' values."""
    return set(NAME.findall(re.sub(r'"[^"]*"', "", expression)))


def dashboard():
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def panels():
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions():
    """All expressions of the dashboard and the rules, with where they are."""
    found = [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]
    found += [(variable["name"], variable["definition"]) for variable in dashboard()["templating"]["list"] if variable["type"] == "query"]
    return found + [(name, expression) for name, expression in alerts().items()]


def alerts():
    """The expressions of the rules by their names. Each is on one line, so that no parser of YAML is needed."""
    text = RULES.read_text(encoding="utf-8")
    return dict(re.findall(r"^ +- alert: (\w+)\n +expr: (.+)$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The names and kinds of all figures of a running coordinator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["serve", "--config", "/dev/null", "--state", tmp_path_factory.mktemp("state"), "--listen", "127.0.0.1:0", "--no-relay", "--metrics", address]
    with subprocess.Popen([binary("taut-coordinator"), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            text = fetch(f"http://{address}/metrics")
        finally:
            program.kill()
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def fetch(url):
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE_S) as answer:
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < end, f"{url} does not answer"
            time.sleep(0.05)


def existing(figures):
    """The names of the series of figures: a histogram has three."""
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind in figures.items() for part in parts.get(kind, ("",))}


@pytest.mark.programs
def test_every_figure_that_the_dashboard_and_the_alerts_name_exists(figures):
    known = existing(figures) | OF_PROMETHEUS
    unknown = {place: named(expression) - known for place, expression in expressions() if not named(expression) or named(expression) - known}
    assert unknown == {}, "each expression names figures, and figures of the program"


@pytest.mark.programs
def test_every_figure_is_shown_and_documented(figures):
    shown = set().union(*(named(expression) for _, expression in expressions()))
    assert {name for name, kind in figures.items() if not existing({name: kind}) & shown} == set(), "a figure that nobody looks at"
    # The table shortens names that begin alike to nothing, so each is there in full.
    text = DOCUMENT.read_text(encoding="utf-8")
    assert {name for name in figures if f"`{name}" not in text} == set()


@pytest.mark.programs
def test_no_figure_names_a_node_or_a_network(figures):
    assert all(name.startswith(("taut_coordinator_", "process_")) for name in figures), figures
    assert all(kind in ("gauge", "counter", "histogram") for kind in figures.values())
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in figures.items()), figures


def test_the_dashboard_can_be_imported():
    found = dashboard()
    assert (found["uid"], found["title"], found["id"]) == ("taut-coordinator", "Taut coordinator", None)
    assert found["schemaVersion"] >= 36
    variables = {variable["name"]: variable for variable in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids)) > 20
    # Grafana replaces variables; a name that is none stays in the query.
    builtin = {"__rate_interval"}
    for panel in panels():
        assert panel["title"] and panel["description"] and panel["targets"], panel
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources), panel["title"]
        used = {name for target in panel["targets"] for name in re.findall(r"\$\{?(\w+)", target["expr"])}
        assert used <= variables.keys() | builtin, panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_no_panel_covers_another():
    taken = {}
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            assert cell not in taken, f"{panel['title']} covers {taken[cell]}"
            taken[cell] = panel["title"]


def test_the_documentation_explains_every_panel_and_every_alert():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert len(alerts()) >= 10
    assert RULES.read_text(encoding="utf-8").count("- alert:") == len(alerts())
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    for name in [panel["title"] for panel in panels()] + [f"`{name}`" for name in alerts()]:
        assert name in rows, f"{name} is not in docs/monitoring.md"


@needs_promtool
def test_prometheus_accepts_the_rules_and_they_do_what_they_say():
    assert f"{len(alerts())} rules found" in call("promtool", "check", "rules", RULES).stdout
    tested = set(re.findall(r"alertname: (\w+)", ALERT_TESTS.read_text(encoding="utf-8")))
    assert len(tested) >= 3 and tested <= alerts().keys()
    assert "SUCCESS" in call("promtool", "test", "rules", ALERT_TESTS).stdout
