"""Targets, and whether a run reached them. The verdicts are computed from tunnel.json.

A goal has two limits: "reach" is required, "go for" is the aim. Ratios are of medians over the rounds. A goal without a mode is judged free and pinned; a
goal with several systems by the worst of them.
"""

from dataclasses import dataclass
from typing import Callable

from . import summary
from .plan import MODES, USUAL_MTU

AES, CHACHA, WG, OTHER = "taut-aes", "taut-chacha", "taut-wg", "wireguard-go"
# Two lanes and one all the time; AES opens them by load.
LANES, ONE_LANE = "taut-lanes-2", "taut-lanes-1"
LOW = "taut-low-latency"
AEGIS, AUTO, FLOOR = "taut-aegis", "taut-auto", "floor-aes"
OURS = (AES, CHACHA, WG)
LARGER_MTU = 8900


@dataclass(frozen=True)
class Seen:
    """The result of a run for a goal: the figure, its origin, and whether a side condition holds."""

    value: float
    details: str
    sound: bool = True


@dataclass(frozen=True)
class Goal:
    """`measure(results, mode)` returns a `Seen`, or None if a figure is missing. `most`: larger is better."""

    what: str
    mode: str
    measure: Callable
    reach: float
    go: float
    unit: str = "×"
    most: bool = True
    needs: tuple = OURS

    def verdict(self, seen):
        """Returns "go for", "reach", "missed" or "not measured"."""
        if seen is None:
            return "not measured"
        if not seen.sound or not self._meets(seen.value, self.reach):
            return "missed"
        return "go for" if self._meets(seen.value, self.go) else "reach"

    def limits(self):
        sign = "≥" if self.most else "≤"
        return [f"{sign} {limit:g} {self.unit}".strip() for limit in (self.reach, self.go)]

    def _meets(self, value, limit):
        return value >= limit if self.most else value <= limit


def judge(results, lacking):
    """Returns a row per goal: what, mode, both limits, what was seen, the verdict. `lacking` says by name why systems were not run, or None."""
    rows = []
    for goal in GOALS:
        seen = goal.measure(results, goal.mode)
        verdict = goal.verdict(seen)
        why = next((lacking[name] for name in goal.needs if lacking.get(name)), "a figure is missing")
        details = f"{seen.value:,.2f} {goal.unit}".strip() + f" ({seen.details})" if seen else why
        rows.append({"what": goal.what, "mode": goal.mode, "limits": goal.limits(), "seen": details, "value": seen and round(seen.value, 4), "verdict": verdict})
    return rows


def against(one, other, test, pick=summary.mbps, unit="Gbit/s", scale=1e-3, mtus=(USUAL_MTU, USUAL_MTU), tests=None):
    """Measures the ratio of the figure of `other` to that of `one`; with several in `one`, the worst."""

    def measure(results, mode):
        parts = []
        for name in (one,) if isinstance(one, str) else one:
            beside = other or name
            first = results.figure(name, mode, mtus[0], test, pick)
            second = results.figure(beside, mode, mtus[1], tests or test, pick)
            if first is None or second is None or not second.median:
                return None
            parts.append((first.median / second.median, f"{name} {first.median * scale:.2f} to {second.median * scale:.2f} {unit}"))
        return Seen(min(parts)[0], "; ".join(text for _, text in parts))

    return measure


def worst(names, test, pick, unit=""):
    """Measures the largest figure of these systems."""
    return _largest(names, lambda results, name, mode: results.figure(name, mode, USUAL_MTU, test, pick), lambda value: f"{value:.2f}{unit}")


def added(names):
    """Measures the latency that an echo takes longer than over the bare link; the worst of these systems."""
    return _largest(names, lambda results, name, mode: results.added_us(name, mode, USUAL_MTU), lambda value: f"{value:.0f}")


def _largest(names, figure, shown):
    def measure(results, mode):
        parts = [(name, figure(results, name, mode)) for name in names]
        if any(part is None for _, part in parts):
            return None
        return Seen(max(part.median for _, part in parts), "; ".join(f"{name} {shown(part.median)}" for name, part in parts))

    return measure


def loaded(name):
    """Measures the 99th percentile beside a stream. Valid only if the stream had no retransmissions, which would mean that packets were dropped."""

    def measure(results, mode):
        figure = results.figure(name, mode, USUAL_MTU, "loaded", summary.p99_ms)
        again = results.figure(name, mode, USUAL_MTU, "loaded", summary.retransmits)
        if figure is None:
            return None
        return Seen(figure.median, f"{name}, {again.most:.0f} retransmits at most", again.most == 0)

    return measure


def retransmits(results, mode):
    parts = [(name, results.all_retransmits(name, mode)) for name in OURS]
    if any(figure is None for _, figure in parts):
        return None
    details = "most of a round; " + "; ".join(f"{name} {figure.most:.0f}" for name, figure in parts)
    needless, every = (sum(counts) for counts in zip(*(results.needless_of_all(name, mode) for name in OURS)))
    if every:
        details += f"; of {every} in all rounds the receiver had {needless} already"
    return Seen(max(figure.most for _, figure in parts), details)


def lanes(name):
    """Measures one stream against one lane. Valid only if no segment came out of order."""

    def measure(results, mode):
        seen = against(name, ONE_LANE, "tcp-1")(results, mode)
        disorder = results.figure(name, mode, USUAL_MTU, "tcp-1", summary.out_of_order)
        return seen and Seen(seen.value, f"{seen.details}; {disorder.most:.0f} segments out of order", disorder.most == 0)

    return measure


def cpu(results, mode):
    """Measures the whole machine: CPU time that is moved from the tunnel to another program is not saved."""
    machine = against(AES, OTHER, "tcp-1", summary.machine_cpu, "s", 1.0)(results, mode)
    tunnel = against(AES, OTHER, "tcp-1", summary.tunnel_cpu, "s", 1.0)(results, mode)
    return machine and tunnel and Seen(machine.value, f"whole machine: {machine.details}; tunnel's processes alone: {tunnel.value:.2f} ×")


def _both(what, measure, reach, go, unit="×", most=True, needs=OURS):
    return [Goal(what, mode, measure, reach, go, unit, most, needs) for mode in MODES]


_WG_STREAM, _AES_STREAM = "taut-wg, one TCP stream, against wireguard-go", "network mode, AES, one TCP stream, against wireguard-go"
_AES_ECHO = "echo beside one stream without retransmits, p99, AES"
# The limits apply to a machine with two cores that both ends share.
GOALS = [
    Goal(_WG_STREAM, "free", against(WG, OTHER, "tcp-1"), 2.0, 2.6, needs=(WG, OTHER)),
    Goal(_WG_STREAM, "pinned", against(WG, OTHER, "tcp-1"), 2.4, 2.9, needs=(WG, OTHER)),
    Goal(_AES_STREAM, "free", against(AES, OTHER, "tcp-1"), 3.8, 5.0, needs=(AES, OTHER)),
    Goal(_AES_STREAM, "pinned", against(AES, OTHER, "tcp-1"), 5.0, 6.5, needs=(AES, OTHER)),
    *_both("four streams, against one", against(OURS, None, "tcp-4", tests="tcp-1"), 0.9, 1.0),
    *_both("reverse, against one stream", against(OURS, None, "tcp-reverse", tests="tcp-1"), 0.9, 1.0),
    *_both("two lanes, against one, nothing out of order", lanes(LANES), 0.9, 1.0, needs=(LANES, ONE_LANE)),
    *_both("lanes by load, against one, nothing out of order", lanes(AES), 0.97, 1.0, needs=(AES, ONE_LANE)),
    Goal("four streams, lanes by load, against one lane", "free", against(AES, ONE_LANE, "tcp-4"), 1.2, 1.35, needs=(AES, ONE_LANE)),
    *_both("MTU 8,900 on a link of 9,000, AES, against MTU 1,420", against(AES, AES, "tcp-1", mtus=(LARGER_MTU, USUAL_MTU)), 1.2, 1.4, needs=(AES,)),
    *_both("MTU 8,900, AES, against the floor at 8,900", against(AES, FLOOR, "tcp-1", mtus=(LARGER_MTU, LARGER_MTU)), 0.9, 1.0, needs=(AES, FLOOR)),
    *_both("MTU found on a link of 9,000, AES, against --mtu 8900", against(AUTO, AES, "tcp-1", mtus=(LARGER_MTU, LARGER_MTU)), 0.97, 1.0, needs=(AUTO, AES)),
    *_both("AEGIS-256X4, one stream, against AES-256-GCM", against(AEGIS, AES, "tcp-1"), 1.1, 1.2, needs=(AEGIS, AES)),
    *_both("UDP at 1 Gbit/s, lost", worst(OURS, "udp-1000", summary.lost), 0.5, 0.0, "%", False),
    *_both("UDP at 1 Gbit/s in even spacing, lost", worst(OURS, "udp-1000-even", summary.lost), 0.1, 0.0, "%", False),
    *_both("UDP at 2 Gbit/s, lost", worst(OURS, "udp-2000", summary.lost), 10.0, 1.0, "%", False),
    *_both("UDP unlimited, received, against wireguard-go", against(OURS, OTHER, "udp-unlimited"), 2.5, 3.5, needs=(*OURS, OTHER)),
    *_both("echo, idle, added to the bare link, median", added(OURS), 80.0, 40.0, "µs", False),
    *_both("the same in low-latency mode", added((LOW,)), 80.0, 40.0, "µs", False, (LOW,)),
    Goal(_AES_ECHO, "free", loaded(AES), 3.0, 1.0, "ms", False, (AES,)),
    Goal(_AES_ECHO, "pinned", loaded(AES), 2.0, 0.7, "ms", False, (AES,)),
    *_both("echo beside one stream without retransmits, p99, ChaCha20", loaded(CHACHA), 10.0, 5.0, "ms", False, (CHACHA,)),
    *_both("memory of a node, idle", worst(OURS, "idle", summary.idle_mb), 5.0, 3.0, "MB", False),
    *_both("memory of a node, at its peak", worst(OURS, "idle", summary.peak_mb), 10.0, 6.0, "MB", False),
    *_both("TCP retransmits of a round", retransmits, 0.0, 0.0, "", False),
    *_both("CPU seconds per GB, both ends, AES, against wireguard-go", cpu, 0.4, 0.25, "×", False, (AES, OTHER)),
]
