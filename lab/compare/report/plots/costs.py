"""Cost and success of each system."""

from ...plan import BARE, STREAM
from ...summary import cpu_per_gb, peak_mb
from .. import captions
from ..drawing import INK, ROW_HEIGHT, Plot, across, figures_of, finish, mark, panels, rows, whisker
from ..formatting import wilson


def cost(palette, results):
    """Draws CPU time per GB and memory with one TCP stream, on the first link of the results."""
    profile = next(iter(results.profiles(STREAM, results.main_series()[0])), None)
    if not profile:
        return None
    systems = [name for name in results.systems(profile, STREAM)]
    found = [figures_of(results, profile, systems, STREAM, pick) for pick in (cpu_per_gb, peak_mb)]
    if not all(found):
        return None
    figure, axes = panels(2, 2, ROW_HEIGHT * len(systems) + 0.9)
    across(axes[0], palette, systems, found[0], "s/GB")
    axes[0].set_title(f"processor time of the whole machine, {profile}")
    across(axes[1], palette, list(found[1]), found[1], "MB")
    axes[1].set_title(f"peak memory of the end that used more, {profile}")
    handles = [mark("median (bar)", palette.colour(BARE)), whisker()]
    labels, n = finish(figure, results, [*found[0].values(), *found[1].values()], handles, "One TCP stream; less is better.")
    return Plot("cost", "CPU time and memory", captions.cost(results, profile), ("s/GB", "MB"), labels, n, figure=figure)


def success(palette, results):
    """Draws how many runs of each system succeeded."""
    systems = [name for name in results.systems() if results.success(name)[1]]
    if not systems:
        return None
    figure, (axis,) = panels(1, 1, ROW_HEIGHT * len(systems) + 0.9)
    for row, name in enumerate(systems):
        good, tried = results.success(name)
        low, high = (100 * side for side in wilson(good, tried))
        share = 100 * good / tried
        axis.barh(row, share, height=0.72, color=palette.colour(name), xerr=[[max(0.0, share - low)], [max(0.0, high - share)]], error_kw={"elinewidth": 1.1, "capsize": 2.5, "ecolor": INK})
        axis.annotate(f"{good} of {tried}", (102, row), va="center", fontsize=8)
    rows(axis, palette, systems)
    axis.set_xlim(0, 112)
    axis.set_xticks(range(0, 101, 20))
    axis.set_xlabel("runs that succeeded (%)")
    handles = [mark("succeeded (bar)", palette.colour(BARE)), whisker()]
    counts = sorted({results.success(name)[1] for name in systems})
    n = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"n = {n} runs per system; the interval is Wilson's.", fontsize=8, x=0.01, ha="left", color="#555555")
    return Plot("success", "Runs that succeeded", captions.success(results, systems), ("%",), [handle.get_label() for handle in handles], n, figure=figure)
