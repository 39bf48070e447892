"""Quantiles of what was measured."""

import math


def quantile(values, share):
    """The value that `share` of all are not above (nearest rank); None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else None
