"""A matrix of pairs as a drawing: SVG directly, PNG with matplotlib if it is installed."""

import io
from html import escape

from ...hosts.nats.kinds import KINDS

CELL, LEFT, TOP, LEGEND = 46, 150, 150, 30
# Colours that colour-blind readers can tell apart; the letter in the cell repeats the meaning.
COLOURS = {"direct": "#009e73", "guess": "#e69f00", "relay": "#0050b5", "none": "#b2182b", "": "#f2f2f2"}
LETTERS = {"direct": "D", "guess": "G", "relay": "R", "none": "–", "": ""}
INK, PAPER = "#222222", "#ffffff"
_FONT = "DejaVu Sans, Verdana, Arial, sans-serif"


def shapes(cells, title, words):
    """Yields the shapes of the drawing. `cells`: {(a, b): (state, second line, why)}; `words`: {state: meaning}, for the legend.

    The shapes are ("box", x, y, width, height, colour, hover text) and ("text", x, y, text, size, colour, anchor, angle).
    """
    names = [name for name in KINDS if any(name in pair for pair in cells)]
    yield "text", 10, 22, title, 15, INK, "start", 0
    for number, name in enumerate(names):
        yield "text", LEFT - 8, TOP + (number + 0.6) * CELL, name, 11, INK, "end", 0
        yield "text", LEFT + (number + 0.55) * CELL, TOP - 8, name, 11, INK, "start", -55
    for row, a in enumerate(names):
        for column, b in enumerate(names):
            state, below, why = cells.get((a, b)) or cells.get((b, a)) or ("", "", "")
            x, y = LEFT + column * CELL, TOP + row * CELL
            yield "box", x + 1, y + 1, CELL - 2, CELL - 2, COLOURS[state], f"{a} – {b}: {state or 'not tried'}. {why}"
            yield "text", x + CELL / 2, y + (0.45 if below else 0.62) * CELL, LETTERS[state], 15, PAPER, "middle", 0
            if below:
                yield "text", x + CELL / 2, y + 0.8 * CELL, below, 9, PAPER, "middle", 0
    for number, (state, meaning) in enumerate(words.items()):
        y = TOP + len(names) * CELL + 14 + number * 22
        yield "box", LEFT, y, 16, 16, COLOURS[state], ""
        yield "text", LEFT + 24, y + 13, f"{LETTERS[state]}  {meaning}", 11, INK, "start", 0


def size(cells, words):
    """Returns width and height of the drawing in pixels."""
    count = len({name for pair in cells for name in pair})
    return LEFT + count * CELL + 90, TOP + count * CELL + LEGEND + len(words) * 22


def svg(cells, title, words):
    """Returns the drawing as SVG; each cell shows its reason on hover."""
    width, height = size(cells, words)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="{_FONT}">']
    lines += [f"<title>{escape(title)}</title>", f'<rect width="{width}" height="{height}" fill="{PAPER}"/>']
    for kind, *rest in shapes(cells, title, words):
        if kind == "box":
            x, y, wide, high, colour, hover = rest
            lines.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="3" fill="{colour}"><title>{escape(hover)}</title></rect>')
        else:
            x, y, text, points, colour, anchor, angle = rest
            turn = f' transform="rotate({angle} {x:g} {y:g})"' if angle else ""
            lines.append(f'<text x="{x:g}" y="{y:g}" font-size="{points}" fill="{colour}" text-anchor="{anchor}"{turn}>{escape(text)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def png(cells, title, words):
    """Returns the drawing as PNG bytes, or None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    width, height = size(cells, words)
    figure = pyplot.figure(figsize=(width / 100, height / 100), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for kind, *rest in shapes(cells, title, words):
        if kind == "box":
            x, y, wide, high, colour, _ = rest
            axes.add_patch(Rectangle((x, y), wide, high, color=colour, linewidth=0))
        else:
            x, y, text, points, colour, anchor, angle = rest
            aligned = {"start": "left", "middle": "center", "end": "right"}[anchor]
            axes.text(x, y, text, size=points * 0.72, color=colour, ha=aligned, va="baseline", rotation=-angle, rotation_mode="anchor")
    data = io.BytesIO()
    figure.savefig(data, format="png")
    pyplot.close(figure)
    return data.getvalue()
