"""The two halves of the table of docs/paths.md fit together, in whichever order they are made."""

from lab.runs import paths_table
from lab.runs.paths_table import BEGIN, END, LAB, SIM, fill, simulated

FIGURE = {"name": "back", "unit": "ms", "median": 1.0, "p99": 812.4, "max": 900.0, "never": [], "lost": 0, "overtaken": 0, "reached": True}


def page(tmp_path, text=""):
    page = tmp_path / "page"
    page.write_text(f"before\n\n{BEGIN}\n\n{text}\n\n{END}\nafter\n")
    return page


def row(page, name):
    return next(line for line in page.read_text().splitlines() if line.startswith(f"| {paths_table.LINES[name][0]} |"))


def test_each_half_leaves_the_other_one_as_it_is(tmp_path):
    one = page(tmp_path, "Not measured yet.")
    fill(one, LAB, "made today.", {"back": ["900 ms", "1100 ms (20 runs)", "yes"], "cold": ["20 ms", "30 ms (20 runs)", "yes"]})
    fill(one, SIM, "made yesterday.", simulated([FIGURE], 1_000))
    fill(one, LAB, "made tomorrow.", {"cold": ["21 ms", "31 ms (20 runs)", "yes"]})
    assert row(one, "back").endswith("| 900 ms | 1100 ms (20 runs) | yes | 812 ms; 0 lost, 0 reordered | yes |")
    assert row(one, "cold").endswith("| 21 ms | 31 ms (20 runs) | yes | – | – |")
    text = one.read_text()
    assert "In the lab: made tomorrow." in text and "In the simulator: made yesterday." in text
    assert text.startswith("before\n") and text.endswith("after\n") and "Not measured" not in text and "today" not in text


def test_a_goal_that_was_never_reached_is_marked():
    never = FIGURE | {"p99": None, "never": [3, 4], "reached": False}
    assert simulated([never | {"name": "cold"}], 1_000) == {"cold": ["never with 2 seeds", "no"]}
    assert simulated([never | {"name": "direct"}], 1_000)["pairs"] == ["998 of 1000 runs", "no"]
    assert simulated([FIGURE | {"name": "direct"}], 1_000)["pairs"] == ["1000 of 1000 runs", "yes"]


def test_one_line_of_a_half_keeps_the_note_on_the_others(tmp_path):
    one = page(tmp_path)
    fill(one, LAB, "made today.", {"cold": ["20 ms", "30 ms (20 runs)", "yes"]})
    fill(one, LAB, None, {"pairs": ["35 of 35 pairs", "35 of 35 runs", "yes"]})
    assert row(one, "pairs").endswith("| 35 of 35 pairs | 35 of 35 runs | yes | – | – |") and "In the lab: made today." in one.read_text()


def test_every_line_has_all_its_cells(tmp_path):
    one = page(tmp_path)
    fill(one, SIM, "made now.", {name: ["1 ms", "yes"] for name in paths_table.LINES})
    lines = [line for line in one.read_text().splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(paths_table.LINES)
    assert {line.count("|") for line in lines} == {len(paths_table.HEAD) + 1}
