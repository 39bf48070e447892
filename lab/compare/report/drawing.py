"""Common parts of all plots: style, legend, figures with intervals, conversion to SVG and PNG."""

import contextlib
import io
import re
from dataclasses import dataclass, field

from ...hosts.wait import LabError
from ..plan import STREAM
from . import captions
from .formatting import INTERVAL, number, whiskers

# Colours: the bare link is grey, Taut blue; each other system has the same colour in every plot. Colour-blind readers can tell most of a dozen apart;
# the marks differ too.
FIXED = {"bare": "#7f7f7f", "taut-aes": "#0050b5", "taut-wg": "#4aa3ff", "taut-chacha": "#002b66"}
COLOURS = ("#d55e00", "#009e73", "#cc79a7", "#e69f00", "#8c564b", "#5ab4ac", "#b2182b", "#9467bd", "#7a9a01", "#4d4d4d", "#f781bf", "#17becf")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d", "8")
INK, GRID, LINE = "#222222", "#e4e4e4", "#b2182b"
SERIES = ("#0050b5", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#7f7f7f")
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "grid.color": GRID,
    "text.color": INK,
    "axes.labelcolor": INK,
    "figure.facecolor": "white",
    "legend.frameon": False,
    # Text stays text: small, searchable, and readable for the check.
    "svg.fonttype": "none",
}
WIDTH, ROW_HEIGHT = 11.0, 0.24
# Background of figures that may overlap a line.
PAPER = {"boxstyle": "square,pad=0.08", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
DPI = 130


@dataclass
class Plot:
    """`units`, `legend`, `n` and `interval` are also in the drawing, where the check looks for them."""

    name: str
    title: str
    sentence: str
    units: tuple
    legend: list
    n: str
    interval: str = INTERVAL
    figure: object = field(default=None, repr=False)

    def svg(self):
        """Returns the drawing as one <svg> element; its ids begin with the name of the plot, so that one page can contain several."""
        with style(self.name):
            text = io.StringIO()
            self.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": self.title})
        body = text.getvalue()
        body = body[body.index("<svg") :]
        body = re.sub(r'\bid="([^"]+)"', rf'id="{self.name}-\1"', body)
        return re.sub(r'(url\(#|href="#)', rf"\1{self.name}-", body)

    def png(self):
        with style(self.name):
            data = io.BytesIO()
            self.figure.savefig(data, format="png", dpi=DPI, metadata={"Title": self.title})
        return data.getvalue()


@contextlib.contextmanager
def style(salt):
    with library().rc_context(STYLE | {"svg.hashsalt": salt}):
        yield


def library():
    """Returns matplotlib, or raises a `LabError` that says how to install it."""
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.ticker
    except ImportError:
        raise LabError("the page needs matplotlib, which this Python has not: `tools/setup report` puts it into target/venv, then `python3 -m lab report`") from None
    return matplotlib


class Palette:
    """Colour, mark and title of each system, the same in every plot."""

    def __init__(self, results):
        self.results = results
        names = list(results.content["systems"])
        others = [name for name in names if name not in FIXED]
        self._colours = FIXED | {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(others)}
        self._marks = {name: MARKS[number % len(MARKS)] for number, name in enumerate(names)}

    def colour(self, system):
        return self._colours[system]

    def mark(self, system):
        return self._marks[system]

    def title(self, system):
        return self.results.content["systems"][system]["title"]


def panels(count, columns, height, width=WIDTH, **more):
    """Makes a figure of `count` panels; hides unused ones."""
    rows = -(-count // columns)
    figure = library().figure.Figure(figsize=(width, rows * height + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    flat = [axis for row in axes for axis in row]
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat[:count]


def finish(figure, results, figures, handles, note=""):
    """Adds the legend and the line with the number of rounds; returns (labels of the legend, n)."""
    n = results.rounds_of(figures)
    labels = [handle.get_label() for handle in handles]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)), fontsize=8)
    figure.suptitle(f"{of_rounds(n)} {note}".strip(), fontsize=8, x=0.01, ha="left", color="#555555")
    return labels, n


def of_rounds(n):
    return f"n = {n} {'round' if n == '1' else 'rounds'} per figure."


def mark(label, colour, marker="s"):
    line = library().lines.Line2D([], [], linestyle="none", marker=marker, color=colour, markersize=6)
    line.set_label(label)
    return line


def whisker():
    line = library().lines.Line2D([], [], color=INK, linewidth=1.2, marker="|", markersize=7)
    line.set_label(INTERVAL)
    return line


def rule(label, colour=LINE, dashes="--"):
    line = library().lines.Line2D([], [], color=colour, linestyle=dashes, linewidth=1.2)
    line.set_label(label)
    return line


def across(axis, palette, systems, found, unit, ticks=6):
    """Draws a horizontal bar per system, with whiskers and the median as text; the first system on top. At most `ticks` steps on the axis."""
    places = range(len(systems))
    for place, name in zip(places, systems):
        one = found.get(name)
        if not one:
            axis.text(0.01, place, "no figure", transform=axis.get_yaxis_transform(), va="center", fontsize=7, color="#999999")
            continue
        below, above = whiskers(one)
        axis.barh(place, one.median, color=palette.colour(name), height=0.72, xerr=[[below], [above]], error_kw={"elinewidth": 1.1, "capsize": 2.5, "ecolor": INK})
        value(axis, one.median, one.median + above, place)
    rows(axis, palette, systems, ticks)
    if not any(one.most for one in found.values()):
        axis.set_xlim(0, 1)
    axis.set_xlabel(unit)


def value(axis, median, where, place):
    """Writes a median at the end of its bar, readable on a line too."""
    axis.annotate(number(median), (where, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7, bbox=PAPER)


def rows(axis, palette, systems, ticks=6):
    """Makes a row per system, the first on top, with room for text at the end of the longest bar."""
    axis.set_yticks(range(len(systems)), [palette.title(name) for name in systems], fontsize=8)
    axis.set_ylim(len(systems) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.2)
    plain(axis.xaxis, ticks)


def plain(axis, most=6):
    """Formats numbers on an axis as in the text, and limits their number."""
    axis.set_major_formatter(library().ticker.FuncFormatter(lambda entry, _: f"{entry:,g}"))
    axis.set_minor_formatter(library().ticker.NullFormatter())
    if axis.get_scale() == "linear":
        axis.set_major_locator(library().ticker.MaxNLocator(most))


def beside(axis, palette, systems, groups, values):
    """Draws bars of each system side by side, group by group; `values(group, system)` is (height, below, above) or None."""
    wide = 0.84 / max(1, len(systems))
    for order, name in enumerate(systems):
        for place, group in enumerate(groups):
            entry = values(group, name)
            if entry:
                height, below, above = entry
                where = place - 0.42 + wide * (order + 0.5)
                axis.bar(where, height, wide * 0.92, color=palette.colour(name), yerr=[[below], [above]], error_kw={"elinewidth": 1, "capsize": 1.8, "ecolor": INK})


def figures_of(results, profile, systems, work, pick=None, series=None):
    found = captions.figures(results, profile, work, pick, series)
    return {name: found[name] for name in systems if name in found}


def share_of(results, profile, name, other_profile, other, every, work=STREAM, other_work=STREAM, scale=100):
    """Returns (share, below, above) of one median in another, with the interval of the first."""
    one = results.figure(profile, name, work, None, *results.main_series())
    whole = results.figure(other_profile, other, other_work, None, *results.main_series())
    if not one or not whole or not whole.median:
        return None
    every.append(one)
    return tuple(scale * part / whole.median for part in (one.median, *whiskers(one)))
