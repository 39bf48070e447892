"""Every other kind of work, several streams, and other MTUs and hosts."""

import textwrap

from ...plan import BARE, PING, STREAM
from .. import captions
from ..drawing import INK, ROW_HEIGHT, SERIES, Plot, across, beside, finish, mark, panels, rows, share_of, whisker
from ..formatting import whiskers


def scaling(palette, results):
    """Draws several streams against one, on the link with most kinds of TCP work."""
    kinds = {profile: [work for work in results.all_works(profile) if work.startswith("tcp") and work != STREAM] for profile in results.profiles(STREAM)}
    profile = max(kinds, key=lambda name: len(kinds[name]), default=None)
    if not profile or not kinds[profile]:
        return None
    groups, every = kinds[profile], []
    systems = [name for name in results.systems(profile, groups[0]) if name in results.systems(profile, STREAM)]
    figure, (axis,) = panels(1, 1, 3.4)
    beside(axis, palette, systems, groups, lambda work, name: share_of(results, profile, name, profile, name, every, work, STREAM, 1))
    axis.axhline(1, color=INK, linewidth=1)
    axis.set_xticks(range(len(groups)), [results.works[work]["title"].replace(", ", ",\n") for work in groups], fontsize=8)
    axis.grid(axis="x", visible=False)
    axis.set_ylabel("times its own one stream (×)")
    axis.set_title(profile)
    handles = [mark(palette.title(name), palette.colour(name)) for name in systems] + [whisker()]
    labels, n = finish(figure, results, every, handles, "The line is one stream.")
    return Plot("scaling", "Several streams", captions.scaling(results, profile, groups), ("×",), labels, n, figure=figure)


def work_places(results):
    """Returns (work, link) of every kind of work besides the base: the link where most systems did it."""
    places = []
    for work in results.all_works():
        if work not in (STREAM, PING):
            found = {profile: len(captions.figures(results, profile, work)) for profile in results.profiles(work, results.main_series()[0])}
            if found and max(found.values()):
                places.append((work, max(found, key=found.get)))
    return places


def works(palette, results):
    """Draws every other kind of work, a panel each."""
    places = work_places(results)
    if not places:
        return None
    most = max(len(captions.figures(results, profile, work)) for work, profile in places)
    figure, axes = panels(len(places), min(3, len(places)), ROW_HEIGHT * most + 1.15)
    every = []
    for axis, (work, profile) in zip(axes, places):
        about = results.works[work]
        found = captions.figures(results, profile, work)
        every += found.values()
        better = "more is better" if about["better"] == "more" else "less is better"
        across(axis, palette, list(found), found, f"{about['unit'] or 'count'}; {better}", ticks=3)
        axis.set_title(f"{textwrap.fill(about['title'], 30)}\n{profile}", fontsize=8)
    handles = [mark("median (bar)", palette.colour(BARE)), whisker()]
    labels, n = finish(figure, results, every, handles)
    units = tuple(dict.fromkeys(results.works[work]["unit"] or "count" for work, _ in places))
    title = "Every other kind of work" if STREAM in results.all_works() else "Every kind of work"
    return Plot("works", title, captions.works(results, places), units, labels, n, figure=figure)


def series(palette, results):
    """Draws the same work with another MTU or with tuned hosts."""
    there = [one for one in results.series() if one[0] == results.main_series()[0]]
    if len(there) < 2:
        return None
    there.sort(key=lambda one: (one[1], one[2] or 0))
    counts = {(profile, work): sum(bool(results.figure(profile, name, work, None, *one)) for name in results.systems(profile, work) for one in there)
              for profile in results.profiles() for work in results.all_works(profile)}  # fmt: skip
    places = sorted(counts, key=lambda place: -counts[place])[:4]
    figure, axes = panels(len(places), min(2, len(places)), 3.2)
    every = []
    for axis, (profile, work) in zip(axes, places):
        systems = results.systems(profile, work)
        tall = 0.84 / len(there)
        for order, one in enumerate(there):
            for row, name in enumerate(systems):
                entry = results.figure(profile, name, work, None, *one)
                if entry:
                    below, above = whiskers(entry)
                    where = row - 0.42 + tall * (order + 0.5)
                    axis.barh(where, entry.median, tall * 0.9, color=SERIES[order % len(SERIES)], xerr=[[below], [above]], error_kw={"elinewidth": 1, "capsize": 1.8, "ecolor": INK})
                    every.append(entry)
        rows(axis, palette, systems)
        axis.set_xlabel(results.works[work]["unit"] or "count")
        axis.set_title(f"{results.works[work]['title']}\n{profile}", fontsize=8)
    handles = [mark(captions.named_series(one), SERIES[order % len(SERIES)]) for order, one in enumerate(there)] + [whisker()]
    labels, n = finish(figure, results, every, handles)
    units = tuple(dict.fromkeys(results.works[work]["unit"] or "count" for _, work in places))
    return Plot("series", "Other MTUs, tuned hosts", captions.series(results, *places[0], there), units, labels, n, figure=figure)
