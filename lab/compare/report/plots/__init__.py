"""The plots. Each says its units, what its marks mean, of how many rounds it is and how sure, and has one sentence of reading."""

from ..drawing import Palette, style
from .costs import cost, success
from .links import heat_ping, heat_stream, latency, placement, retention, stream
from .works import scaling, series, work_places, works

__all__ = ["draw", "work_places"]


def draw(results):
    """All plots that these results can fill."""
    plots = []
    for make in (stream, latency, heat_stream, heat_ping, retention, placement, scaling, works, series, cost, success):
        with style(make.__name__):
            plot = make(Palette(results), results)
        # What has no figure at all is in the tables, as failed.
        plots += [plot] if plot and plot.n != "0" else []
    return plots
