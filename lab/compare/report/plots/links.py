"""Throughput and latency on each link: one TCP stream and round trips, and the effect of a link or of the placement of its loss."""

from ...plan import BARE, MAIN_PROFILES, PACKETS, PING, STREAM, SUPERPACKETS
from .. import captions, theory
from ..drawing import INK, LINE, ROW_HEIGHT, SERIES, Plot, across, beside, figures_of, finish, mark, of_rounds, panels, plain, rows, rule, share_of, value, whisker
from ..formatting import INTERVAL, bounds, number, whiskers

# Factor between maximum and minimum above which a logarithmic scale is used.
WIDE = 8


def stream(palette, results):
    """Draws one TCP stream, a panel per link, with the line of the theory."""
    profiles = results.profiles(STREAM, results.main_series()[0])
    if not profiles:
        return None
    most = max(len(results.systems(profile, STREAM)) for profile in profiles)
    figure, axes = panels(len(profiles), min(2, len(profiles)), ROW_HEIGHT * most + 0.9)
    every, lines = [], {}
    for axis, profile in zip(axes, profiles):
        systems = results.systems(profile, STREAM)
        found = figures_of(results, profile, systems, STREAM)
        every += found.values()
        across(axis, palette, systems, found, "Mbit/s")
        axis.set_title(f"{profile}: {results.content['profiles'][profile]['title']}")
        line = theory.mbps(results.content["profiles"][profile])
        if line:
            label, dashes = ("theory: MSS/RTT × 1.22/√p", "--") if line[1] else ("theory for the loss alone (jitter and reordering come on top)", ":")
            axis.axvline(line[0], color=LINE, linestyle=dashes, linewidth=1.3)
            lines[label] = rule(label, LINE, dashes)
    handles = [mark("median (bar)", palette.colour(BARE)), whisker(), *(lines[label] for label in sorted(lines, key=len))]
    labels, n = finish(figure, results, every, handles, "More is better.")
    return Plot("stream", "One TCP stream", captions.stream(results), ("Mbit/s",), labels, n, figure=figure)


def latency(palette, results):
    """Draws throughput against latency, a panel per link."""
    profiles = [name for name in results.profiles(STREAM) if name in results.profiles(PING) and name in MAIN_PROFILES]
    if not profiles:
        return None
    unit = results.works[PING]["unit"]
    figure, axes = panels(len(profiles), min(2, len(profiles)), 3.1)
    every, shown = [], []
    for axis, profile in zip(axes, profiles):
        streams, pings = (captions.figures(results, profile, work) for work in (STREAM, PING))
        for name in streams:
            if name in pings and streams[name].median > 0:
                near, much = pings[name], streams[name]
                bars = {"xerr": [[side] for side in whiskers(near)], "yerr": [[side] for side in whiskers(much)]}
                axis.errorbar(near.median, much.median, **bars, color=palette.colour(name), marker=palette.mark(name), markersize=7, elinewidth=1.1, capsize=2)
                every += [near, much]
                shown += [name] if name not in shown else []
        high = [one.median for one in streams.values() if one.median > 0]
        axis.set_yscale("log" if high and max(high) > WIDE * min(high) else "linear")
        plain(axis.xaxis)
        plain(axis.yaxis)
        axis.set_title(profile)
        axis.set_xlabel(f"round trip, idle ({unit})")
        axis.set_ylabel("one TCP stream (Mbit/s)")
    if not shown:
        return None
    handles = [mark(palette.title(name), palette.colour(name), palette.mark(name)) for name in shown] + [whisker()]
    labels, n = finish(figure, results, every, handles, "Up and to the left is better.")
    return Plot("latency", "Throughput against latency", captions.latency(results), ("Mbit/s", unit), labels, n, figure=figure)


def heat_stream(palette, results):
    return _heat(palette, results, STREAM, "heat-stream", "One TCP stream on every link")


def heat_ping(palette, results):
    return _heat(palette, results, PING, "heat-ping", "Round trip on every link")


def _heat(palette, results, work, name, title):
    """Draws a matrix of links and systems; the colour is the share of the best tunnel of that link."""
    profiles = results.profiles(work, results.main_series()[0])
    systems = results.systems(work=work)
    if not profiles or not systems:
        return None
    unit, every = results.works[work]["unit"], []
    figure, (axis,) = panels(1, 1, 0.42 * len(systems) + 0.8, width=max(6.5, 1.15 * len(profiles) + 3.2))
    shares = [[float("nan")] * len(profiles) for _ in systems]
    for column, profile in enumerate(profiles):
        found, best = figures_of(results, profile, systems, work), captions.ranked(results, profile, work)
        for row, system in enumerate(systems):
            one = found.get(system)
            if one and best and one.median and best[0][1].median:
                ratio = one.median / best[0][1].median
                shares[row][column] = 100 * min(1.0, ratio if results.works[work]["better"] == "more" else 1 / ratio)
                every.append(one)
            text = f"{number(one.median)}\n{bounds(one)}" if one else "no figure"
            dark = shares[row][column] > 60
            axis.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else INK)
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    axis.grid(visible=False)
    axis.set_xticks(range(len(profiles)), profiles, rotation=0 if len(profiles) < 7 else 35, ha="center" if len(profiles) < 7 else "right")
    axis.set_yticks(range(len(systems)), [palette.title(system) for system in systems], fontsize=8)
    key = "share of the best tunnel there (%)"
    figure.colorbar(image, ax=axis, label=key, shrink=0.8)
    n = results.rounds_of(every)
    figure.suptitle(f"{of_rounds(n)} Median in {unit}, below it the {INTERVAL}; dark is better.", fontsize=8, x=0.01, ha="left", color="#555555")
    return Plot(name, title, captions.heat(results, work), (unit, "%"), [key], n, figure=figure)


def retention(palette, results):
    """Draws the share of its speed on the plain link, and of the bare link's speed, that each system keeps on each link."""
    base = MAIN_PROFILES[0]
    there = results.profiles(STREAM)
    links = [name for name in MAIN_PROFILES[1:] if name in there]
    if base not in there or not links:
        return None
    systems = [name for name in results.systems(base, STREAM)]
    figure, axes = panels(2, 2, 3.6)
    every = []

    def of_own(profile, name):
        return share_of(results, profile, name, base, name, every)

    def of_bare(profile, name):
        return share_of(results, profile, name, profile, BARE, every)

    for axis, values, label in zip(axes, (of_own, of_bare), (f"of its own speed on {base} (%)", "of the bare link there (%)")):
        beside(axis, palette, systems, links, values)
        axis.set_xticks(range(len(links)), links)
        axis.grid(axis="x", visible=False)
        axis.set_ylabel(label)
    axes[0].set_yscale("log")
    for axis in axes:
        plain(axis.yaxis)
    axes[1].axhline(100, color=palette.colour(BARE), linewidth=1)
    handles = [mark(palette.title(name), palette.colour(name)) for name in systems] + [whisker()]
    labels, n = finish(figure, results, every, handles, "One TCP stream; more is better.")
    return Plot("retention", "What a link leaves of the speed", captions.retention(results, links, base), ("%",), labels, n, figure=figure)


def placement(palette, results):
    """Draws results on the same link with losses per wire packet and with losses per superpacket."""
    links = [name for name in results.profiles(STREAM, SUPERPACKETS) if name in results.profiles(STREAM, PACKETS)]
    if not links:
        return None
    figure, axes = panels(len(links), min(2, len(links)), 3.2)
    every = []
    for axis, profile in zip(axes, links):
        both = [figures_of(results, profile, results.systems(profile, STREAM), STREAM, None, (where, False, None)) for where in (PACKETS, SUPERPACKETS)]
        systems = [name for name in both[0] if name in both[1]]
        for place, (found, colour) in enumerate(zip(both, SERIES)):
            for row, name in enumerate(systems):
                one = found[name]
                below, above = whiskers(one)
                where = row - 0.2 + 0.4 * place
                axis.barh(where, one.median, height=0.36, color=colour, xerr=[[below], [above]], error_kw={"elinewidth": 1, "capsize": 2, "ecolor": INK})
                value(axis, one.median, one.median + above, where)
                every.append(one)
        line = theory.mbps(results.content["profiles"][profile])
        if line:
            axis.axvline(line[0], color=LINE, linestyle=":", linewidth=1.3)
        rows(axis, palette, systems)
        axis.set_title(profile)
        axis.set_xlabel("Mbit/s")
    names = ("drawn for each wire packet", "drawn for each superpacket")
    handles = [*(mark(label, colour) for label, colour in zip(names, SERIES)), whisker(), rule("theory for the loss alone", LINE, ":")]
    labels, n = finish(figure, results, every, handles, "One TCP stream, the same link.")
    return Plot("placement", "What the place of the loss does", captions.placement(results, links), ("Mbit/s",), labels, n, figure=figure)
