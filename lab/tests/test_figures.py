"""Commands that measure rows of a table (lab/runs/figures.py)."""

from lab.hosts.wait import LabError
from lab.runs.figures import Figures
from lab.runs.path_rows import Row


def _broken(_lab, _runs):
    yield Row("first", 5, [1.0, 2.0, 4.0])
    raise LabError("the link is gone\nand more")


def _made():
    return Figures(
        name="trial",
        summary="a trial",
        lines={"first": ("how soon", "≤ 5 ms"), "second": ("how much", "≥ 90 %"), "third": ("how many", "0")},
        measured={"good": lambda _lab, runs: iter([Row("second", 90, [95.0] * runs, unit="%", of="pairs")]), "bad": _broken},
        several={"bad": ["first", "third"]},
        programs=[],
    )


def test_a_measurement_that_fails_is_a_row_that_says_so(tmp_path):
    figures = _made()
    rows = list(figures.measure(["good", "bad"], 2))
    page = tmp_path / "page"
    page.write_text("before\n<!-- made by make trial: begin -->\nold\n<!-- made by make trial: end -->\nafter\n")
    figures.fill(page, "Made today.", rows)
    assert page.read_text() == (
        "before\n<!-- made by make trial: begin -->\n\nMade today.\n\n"
        "| what | reach | median | worst | reached |\n|---|---|---|---|---|\n"
        "| how much | ≥ 90 % | 95.0 % | 95.0 % (2 pairs) | yes |\n"
        "| how soon | ≤ 5 ms | 2.0 ms | 4.0 ms (3 runs) | yes |\n"
        "| how many | 0 | not measured: the link is gone | – | no |\n"
        "\n<!-- made by make trial: end -->\nafter\n"
    )
