"""The timeline of `make ha-demo` as a drawing (SVG): channels of each replica over time, nodes without a channel, changes that failed, pings that were lost, and the blows."""

from html import escape

from .ha_site import REPLICAS

# Colours that colour-blind readers can tell apart.
COLOURS = ("#0050b5", "#e69f00", "#009e73")
INK, PAPER, FAINT, BLOW, BAD = "#222222", "#ffffff", "#dddddd", "#8a8a8a", "#b2182b"
_FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
# Pixels: the plot and its margins, the panel of channels, one strip.
WIDE, LEFT, RIGHT, TOP, HIGH, STRIP = 900, 150, 20, 130, 180, 14


def svg(result, looks):
    """Returns the drawing. `looks` are the figures of the replicas, as `ReplicaWatch.rows` has them, with times from the start of the traffic."""
    end = result["seconds"]
    strips = strips_of(result)
    height = TOP + HIGH + 40 + len(strips) * (STRIP + 4) + 20
    width = LEFT + WIDE + RIGHT

    def x(at):
        return LEFT + WIDE * min(max(at, 0), end) / end

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="{_FONT}">']
    lines += ["<title>What nodes noticed</title>", f'<rect width="{width}" height="{height}" fill="{PAPER}"/>']
    lines.append(text(LEFT, 22, f"{result['replicas']} coordinators behind HAProxy on one PostgreSQL; {result['nodes']} nodes; {result['pings_lost']} of {result['pings_sent']:,} pings lost", 15))
    lines += blows(result, x, height - 20)
    lines += axes(end, result["nodes"], x)
    lines += [channels(looks, number, result["nodes"], x) for number in range(len(REPLICAS))]
    for number, name in enumerate(REPLICAS):
        y = TOP + 14 + number * 16
        lines.append(f'<rect x="8" y="{y - 9}" width="14" height="4" fill="{COLOURS[number]}"/>' + text(28, y, f"channels at {name}", 11))
    for number, (name, marks) in enumerate(strips):
        lines += strip(name, marks, TOP + HIGH + 40 + number * (STRIP + 4), x)
    return "\n".join([*lines, "</svg>", ""])


def text(x, y, words, points, anchor="start", angle=0):
    turn = f' transform="rotate({angle} {x:g} {y:g})"' if angle else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{points}" fill="{INK}" text-anchor="{anchor}"{turn}>{escape(words)}</text>'


def blows(result, x, bottom):
    """Yields a line for each disturbance, and the name of each blow above its first."""
    for row in result["blows"]:
        for at in row["moments_s"]:
            yield f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="{BLOW}" stroke-dasharray="3 3"><title>{escape(row["detail"])}</title></line>'
        yield text(x(row["moments_s"][0]) + 3, TOP - 10, row["blow"].replace("-", " "), 11, angle=-40)


def axes(end, nodes, x):
    """Yields the frame of the panel of channels, with a scale of channels and one of seconds."""
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}" fill="none" stroke="{FAINT}"/>'
    for count in range(nodes + 1):
        yield text(LEFT - 8, level(count, nodes) + 4, str(count), 10, "end")
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if end / step <= 15)
    for second in range(0, int(end) + 1, step):
        yield text(x(second), TOP + HIGH + 16, f"{second} s", 10, "middle")


def level(count, nodes):
    return TOP + HIGH - HIGH * count / nodes


def channels(looks, number, nodes, x):
    """Returns a line of steps: the channels of one replica. It has a gap while the replica does not answer."""
    words, before = [], None
    for look in looks:
        count = look["channels"][number]
        if count is None:
            before = None
            continue
        # Lines of equal height beside each other.
        y = level(count, nodes) + 2 * (number - 1)
        words.append(f"H{x(look['at']):.1f}V{y:.1f}" if before is not None else f"M{x(look['at']):.1f} {y:.1f}")
        before = count
    return f'<path d="{"".join(words) or "M0 0"}" fill="none" stroke="{COLOURS[number]}" stroke-width="2.5"/>'


def strips_of(result):
    """Returns (name, [(from, to, words)]) of each strip below the panel."""
    names = dict.fromkeys(outage["node"] for outage in result["outages"])
    rows = []
    for name in names:
        marks = [(one["from_s"], one["to_s"] or result["seconds"], "without a channel") for one in result["outages"] if one["node"] == name]
        rows.append((f"{name}: no channel", marks))
    rows.append(("changes that failed", [(at, at, "a change failed") for at in result["changes_failed_at_s"]]))
    rows.append(("pings lost", [(at, at, one["pair"]) for one in result["lost"] for at in one["at_s"]]))
    return rows


def strip(name, marks, y, x):
    yield text(LEFT - 8, y + STRIP - 3, name, 10, "end")
    yield f'<rect x="{LEFT}" y="{y}" width="{WIDE}" height="{STRIP}" fill="#f2f2f2"/>'
    for begin, end, words in marks:
        width = max(2.0, x(end) - x(begin))
        yield f'<rect x="{x(begin):.1f}" y="{y}" width="{width:.1f}" height="{STRIP}" fill="{BAD}"><title>{escape(words)}</title></rect>'
