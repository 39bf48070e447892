"""Quantiles of measured values."""

import math


def quantile(values, share):
    """Returns the value that `share` of all values do not exceed (nearest rank), or None without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else None
