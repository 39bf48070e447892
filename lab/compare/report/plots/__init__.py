"""The plots. Each shows its units, a legend, the number of rounds and its certainty, and has a sentence."""

from ..drawing import Palette, style
from .costs import cost, success
from .links import heat_ping, heat_stream, latency, placement, retention, stream
from .works import scaling, series, work_places, works

__all__ = ["draw", "work_places"]


def draw(results):
    """Returns all plots for which these results have data."""
    plots = []
    for make in (stream, latency, heat_stream, heat_ping, retention, placement, scaling, works, series, cost, success):
        with style(make.__name__):
            plot = make(Palette(results), results)
        # A work without any figure is in the tables, as failed.
        plots += [plot] if plot and plot.n != "0" else []
    return plots
