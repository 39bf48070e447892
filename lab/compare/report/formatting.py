"""Figures as text, with significant digits and intervals."""

from ..summary import SURE

NONE = "–"
INTERVAL = f"{100 * SURE:.0f} % interval"


def number(value):
    """Returns three significant digits, with thousands separators."""
    size = abs(value)
    if size >= 99.95 or size == 0:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.995 else f"{value:#.3g}"


def bounds(figure):
    """Returns the interval of the median, or `one round`."""
    return f"{number(figure.low)}–{number(figure.high)}" if figure.low is not None else "one round"


def whole(figure, unit=""):
    """Returns median, unit and interval: `58.1 Mbit/s (57.0–59.2)`."""
    if figure is None:
        return NONE
    return f"{number(figure.median)} {unit}".strip() + f" ({bounds(figure)})"


def percent(share):
    """Returns a share in percent."""
    return f"{number(100 * share)} %"


def listed(parts, last="and"):
    """Returns `a, b and c`."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""


def counted(count, one, many=None):
    """Returns `1 round`, `2 rounds`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def whiskers(figure):
    """Returns the distances of the interval below and above the median; zeros without an interval."""
    if figure.low is None:
        return 0.0, 0.0
    return figure.median - figure.low, figure.high - figure.median


def wilson(good, tried, z=1.96):
    """Returns Wilson's 95 % interval of a share of `good` in `tried`, which is sound for small numbers."""
    if not tried:
        return 0.0, 1.0
    share, scale = good / tried, 1 + z * z / tried
    middle = (share + z * z / (2 * tried)) / scale
    half = z * ((share * (1 - share) + z * z / (4 * tried)) / tried) ** 0.5 / scale
    return max(0.0, middle - half), min(1.0, middle + half)
