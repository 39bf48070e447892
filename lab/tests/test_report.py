"""The page of the comparison with fake results: its text, its check, and what the check finds."""

import argparse
import re
import sys

import pytest

from lab.compare import command, pages, results
from lab.compare.report import captions, check, formatting, page, theory
from lab.compare.summary import Results, figure
from lab.hosts.wait import LabError

from .fake_results import row, results_file

SPEEDS = {"bare": 900.0, "taut-aes": 700.0, "one": 500.0, "two": 100.0}
LOSSY = {"bare": 58.0, "taut-aes": 59.0, "one": 57.0, "two": 20.0}


def rows(rounds=3):
    """Returns rows of four systems on three links with five kinds of work, and a second placement."""
    found = []
    for number in range(1, rounds + 1):
        for profile, speeds in (("baseline", SPEEDS), ("low", LOSSY), ("low-loss", LOSSY)):
            for name, speed in speeds.items():
                found.append(row(name, "tcp-1", speed * (1 + 0.01 * number), number, profile))
                found.append(row(name, "ping", 5.0 - speed / 1000 + 0.01 * number, number, profile))
        for name, speed in SPEEDS.items():
            found.append(row(name, "tcp-10", speed * 1.1, number))
            found.append(row(name, "video", 99.0 - number, number, "low"))
        found += [row(name, "tcp-1", LOSSY[name] * (5 if name == "bare" else 1.5), number, "low", placement="superpackets") for name in LOSSY]
    found.append(row("two", "memory", 1.0, 1, ok=False))
    return found


def lacking():
    return {"gone": {"title": "system gone", "version": None, "lacking": "not here: make peers", "variant": False}}


@pytest.fixture
def made():
    whole = results_file(rows())
    whole["systems"] |= lacking()
    assert results.problems(whole) == []
    return Results(whole)


# --- formatting and theory ---


def test_figures_have_significant_digits():
    values = (12345.6, 100.4, 99.94, 12.345, 9.99, 1.234, 0.1234, 0.0, 0.00012)
    assert [formatting.number(value) for value in values] == ["12,346", "100", "99.9", "12.3", "9.99", "1.23", "0.123", "0", "0.000120"]
    assert formatting.whole(figure([1.0, 2.0, 3.0]), "ms") == "2.00 ms (1.00–3.00)"
    assert formatting.whole(figure([1.0]), "ms") == "1.00 ms (one round)"
    assert (formatting.listed(["a"]), formatting.listed(["a", "b"]), formatting.listed(["a", "b", "c"]), formatting.listed([])) == ("a", "a and b", "a, b and c", "")


def test_a_share_of_few_runs_has_a_wide_interval():
    low, high = formatting.wilson(3, 3)
    assert low < 0.5 and high == pytest.approx(1.0)
    assert formatting.wilson(0, 0) == (0.0, 1.0)
    assert formatting.wilson(300, 300)[0] > 0.98


def test_the_line_of_theory_is_the_one_of_the_literature():
    link = {"loss": 0.0025, "link": {"right": ""}, "mtu": 1500, "round_trip_ms": 4.82}
    rate, holds = theory.mbps(link)
    assert rate == pytest.approx(58.6, abs=0.1) and holds
    with_jitter = link | {"loss": None, "link": {"right": "base 0.3ms delay 2ms jitter 2ms loss 0.25%"}}
    assert theory.mbps(with_jitter) == (pytest.approx(rate), False)
    assert theory.mbps(link | {"loss": None, "link": {"right": "rate 1mbit loss 1%"}}) is None
    assert theory.mbps(link | {"loss": None, "link": {}}) is None


# --- captions ---


def test_a_sentence_follows_from_its_figures(made):
    text = captions.stream(made)
    assert "system taut-aes on baseline (714 Mbit/s, 77.8 % of the bare link)" in text and "system taut-aes on low (60.2 Mbit/s" in text
    turned = rows()
    for each in turned:
        if each["system"] == "one" and each["work"] == "tcp-1":
            each["figures"]["mbps"] = 5000.0
    assert "system one on baseline (5,000 Mbit/s" in captions.stream(Results(results_file(turned)))


def test_a_lead_within_the_intervals_is_pointed_out():
    close = [row(name, "tcp-1", value + number, number) for name, value in (("one", 10.0), ("two", 10.5)) for number in (1, 2, 3)]
    assert "not apart from system one" in captions.stream(Results(results_file(close)))


def test_equal_systems_have_no_winner():
    equal = Results(results_file([row(name, "tcp-1", 10.0, number) for name in ("one", "two") for number in (1, 2)]))
    assert captions.winner(equal, "baseline", "tcp-1") is None
    assert captions.heat(equal, "tcp-1") == "No tunnel is ahead of another on any of 1 link; the tunnels differ most on baseline, by a factor of 1.00."


def test_how_many_figures_are_on_the_line_of_theory(made):
    assert captions.near_theory(made) == (3, 4)
    assert "of 4 figures on links where loss alone decides, 3 are within 25.0 % of the theory's line." in captions.stream(made)


def test_the_other_sentences_are_computed_too(made):
    assert "on baseline system taut-aes is nearest (4.32 ms) and also carries most" in captions.latency(made)
    assert captions.heat(made, "tcp-1") == "system taut-aes has the best median of all tunnels on 3 of 3 links; the tunnels differ most on baseline, by a factor of 7.00."
    assert "the tunnel that keeps most keeps 20.0 % on low (system two)" in captions.retention(made, ["low"], "baseline")
    assert "makes up to 4.90 times as much of the same loss (system bare on low)" in captions.placement(made, ["low"])
    assert "the order of the systems changes on low" in captions.placement(made, ["low"])
    assert captions.success(made, ["one", "two"]) == "1 of 2 systems succeeded in every run; system two succeeded least, in 27 of 28."
    sentence = "Of 2 kinds of work that several tunnels did, the best median is system taut-aes's in 1 and nobody's in 1, where the best are equal."
    assert captions.works(made, [("tcp-10", "baseline"), ("video", "low")]) == sentence
    assert "least processor time per GB is" in captions.cost(made, "baseline")


def test_every_sentence_ends_and_has_a_figure_even_of_nothing():
    nothing = Results(results_file([row("bare", "tcp-1", 1.0, ok=False), row("bare", "ping", 1.0, ok=False)]))
    sentence = [captions.stream(nothing), captions.heat(nothing, "tcp-1"), captions.latency(nothing), captions.scaling(nothing, "baseline", ["tcp-1"])]
    sentence += [captions.retention(nothing, ["low"], "baseline"), captions.success(nothing, ["bare"]), captions.works(nothing, []), captions.cost(nothing, "baseline")]
    assert [text for text in sentence if not text.endswith(".") or not re.search(r"\d", text)] == []


# --- the page ---


def test_the_page_lists_every_link_work_and_failure(made):
    text = page.document(made, [])
    for part in ("baseline: a link", "low: a link", "system taut-aes", "TCP, one stream, Mbit/s", "not here: make peers", "it broke", "Quick.", "tso on"):
        assert part in text, part
    assert "<script" not in text and "http" not in text.replace("http-equiv", "")
    assert '<td class="best" title="least 707, most 721">714<span>707–721; n = 3</span></td>' in text
    assert '<td class="bad">failed<span>1 of 1</span></td>' in text
    assert "superpackets" in text


def test_missing_visits_are_reported_on_top_and_in_a_list(made):
    assert "Not all of it was done" not in page.document(made, []) and "Not done" not in page.document(made, [])
    one = {"round": 2, "profile": "low", "placement": "packets", "system": "one", "tuned": False, "mtu": None, "hosts": 2, "works": ["tcp-1", "ping"], "optional": False}
    made.content["left_out"] = [one, one | {"system": "two"}, one | {"round": 3, "works": ["ping"], "optional": True}]
    assert results.problems(made.content) == []
    text = page.document(made, [])
    assert "<b>Not all of it was done.</b> 2 visits of systems to links are not here" in text
    assert "<td class=words>2</td><td class=words>low</td><td class=words>TCP, one stream and ping, idle</td><td class=words>system one and system two</td>" in text
    assert "<td class=words>3 (only if there was time)</td>" in text
    made.content["left_out"] = made.content["left_out"][2:]
    assert "Not all of it was done" not in page.document(made, []), "nobody had promised a third round"


def test_text_of_systems_is_escaped(made):
    made.content["systems"]["one"] |= {"title": "<b>one</b>", "version": "<script>"}
    text = page.document(made, [])
    assert "&lt;b&gt;one&lt;/b&gt;" in text and "<b>one</b>" not in text and "<script>" not in text


def test_a_disturbed_figure_has_a_dagger():
    text = page.document(Results(results_file([row("one", "tcp-1", 5.0, disturbed=True)])), [])
    assert f"5.00{page.DISTURBED}<span>n = 1</span>" in text


def test_stolen_time_of_a_virtual_machine_is_reported():
    def text(*stolen):
        rows = [row("one", "tcp-1", 5.0, number) for number in range(len(stolen))]
        for one, seconds in zip(rows, stolen, strict=True):
            one["cpu"] |= {"stolen_s": seconds}
        return page.document(Results(results_file(rows)), [])

    assert "gave others 10.0 % of the processor in the median run and 25.0 % in the worst" in text(0.0, 0.4, 1.0)
    assert "virtual machine" not in text(0.0, 0.0)


# --- the check ---


PLOT = """<figure class="plot" data-name="a" data-units="Mbit/s" data-legend="median (bar)|95 % interval" data-n="2 to 3" data-interval="95 % interval">
<svg><g><text>Mbit/s</text><text>median (bar)</text><text>95 % interval</text><text>n = 2 to 3 rounds per figure.</text></g></svg>
<figcaption><p class="reading">Of the tunnels, one carries 5 Mbit/s most.</p></figcaption></figure>"""


def checked(tmp_path, body, files=True):
    path = tmp_path / "report.html"
    path.write_text(f"<html><body><table></table>{body}</body></html>")
    if files:
        (tmp_path / "report").mkdir(exist_ok=True)
        for kind in ("svg", "png"):
            (tmp_path / "report" / f"a.{kind}").touch()
    return check.lacks(path)


def test_a_whole_page_lacks_nothing(tmp_path):
    assert checked(tmp_path, PLOT) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('data-units="Mbit/s"', 'data-units=""', "a: does not say its units"),
        ('data-n="2 to 3"', "", "a: does not say its n"),
        ("<text>Mbit/s</text>", "", "a: its drawing does not show the units: Mbit/s"),
        ("<text>median (bar)</text>", "", "a: its drawing does not show the legend: median (bar)"),
        ("n = 2 to 3 rounds", "n = 2 rounds", "a: its drawing does not show n"),
        ("<text>95 % interval</text>", "", "a: its drawing does not show the interval"),
        ("Of the tunnels, one carries 5 Mbit/s most.", "", "a: has no sentence of reading that its figures made"),
        ("one carries 5 Mbit/s most", "one carries far more than all", "a: has no sentence of reading that its figures made"),
        ("<svg>", "<svg><image xlink:href='https://x/y.png'/>", "the page fetches https://x/y.png"),
        ("<figcaption>", "<script></script><figcaption>", "the page has a <script>"),
        ("<figcaption>", "<img src='plot.png'><figcaption>", "the page fetches plot.png"),
    ],
)
def test_each_lack_is_found(tmp_path, old, new, why):
    assert old in PLOT
    assert why in checked(tmp_path, PLOT.replace(old, new))


def test_missing_files_and_an_empty_page_are_found(tmp_path):
    assert checked(tmp_path, PLOT, files=False) == [f"a: there is no a.{kind} beside the page" for kind in ("svg", "png")]
    assert "the page has no plot" in checked(tmp_path, "")
    with pytest.raises(LabError, match="cannot be read"):
        check.lacks(tmp_path / "none.html")


def lab(*given):
    parser = argparse.ArgumentParser(prog="lab")
    command.add(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in given])
    return args.run(args)


def test_the_check_reports_by_its_exit_status(tmp_path, capsys):
    checked(tmp_path, PLOT)
    assert lab("report", "--check", tmp_path / "report.html") == 0
    checked(tmp_path, PLOT.replace("<text>Mbit/s</text>", ""))
    assert lab("report", "--check", tmp_path / "report.html") == 1
    assert "does not show the units" in capsys.readouterr().out
    assert lab("report", "--check", tmp_path / "none.html") == 1


# --- drawings ---


@pytest.fixture
def drawing():
    return pytest.importorskip("matplotlib", reason="needs matplotlib: tools/setup report")


def test_the_page_that_is_drawn_lacks_nothing(drawing, made, tmp_path):
    size = page.write(made.content, tmp_path / "report.html")
    assert check.lacks(tmp_path / "report.html") == []
    text = (tmp_path / "report.html").read_text()
    assert size == len(text.encode()) and size < 5_000_000
    names = re.findall(r'<figure class="plot" id="([^"]+)"', text)
    assert names == ["stream", "latency", "heat-stream", "heat-ping", "retention", "placement", "scaling", "works", "cost", "success"]
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "plots in one page do not share ids"
    for where in re.findall(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"', text):
        assert set(filter(None, where)) <= set(ids)


def test_the_same_results_make_the_same_drawing(drawing, made):
    from lab.compare.report import plots

    first, second = ([plot.svg() for plot in plots.draw(Results(made.content))] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "few",
    [
        [row("bare", "tcp-1", 5.0)],
        [row("bare", "tcp-1", 5.0, ok=False)],
        [row("one", "tcp-1-to-2", 5.0), row("one", "tcp-1-to-3", 4.0)],
        [row("one", "tcp-8-both", 5.0, mtu=1420), row("one", "tcp-8-both", 9.0, mtu=8900)],
        [row("one", "ping", 0.0), row("one", "tcp-1", 0.0)],
        [],
    ],
    ids=["one", "failed", "scenario", "mtus", "nought", "nothing"],
)
def test_few_results_make_a_page_too(drawing, few, tmp_path):
    page.write(results_file(few), tmp_path / "report.html")
    assert set(check.lacks(tmp_path / "report.html")) <= {"the page has no plot"}


def test_without_matplotlib_it_is_said_how_to_get_it(made, tmp_path, monkeypatch, capsys):
    results.save(tmp_path / "results.json", made.content)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(pages, "drawn_elsewhere", lambda *_: False)
    assert lab("report", tmp_path / "results.json") == 1
    assert "tools/setup report" in capsys.readouterr().out
