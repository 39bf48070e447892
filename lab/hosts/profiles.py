"""The links of the lab by name, from `profiles.toml`: what lies between hosts.

    profiles.load()["medium"].words("right")     # what linkbox is told for what leaves the first host
"""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .wait import LabError

FILE = Path(__file__).with_name("profiles.toml")
ETHERNET_MTU = 1500
_KEYS = {"title", "about", "both", "right", "left", "plain", "mtu", "path_mtu"}
_TIME_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True)
class Profile:
    """One link."""

    name: str
    title: str
    about: str
    # Words per direction, the base included; empty for a plain link, on which no linkbox stands.
    link: dict = field(default_factory=dict)
    # Of the hosts' interfaces.
    mtu: int = ETHERNET_MTU
    # A router on the way takes no more, and does not say so.
    path_mtu: int | None = None

    @property
    def emulated(self):
        """Whether linkbox stands between the hosts."""
        return bool(self.link)

    def words(self, direction):
        """What linkbox is told for "right" (what leaves the first host) or "left"."""
        return self.link.get(direction, "")

    @property
    def round_trip_ms(self):
        """What the link adds to a round trip, on average and where nothing queues; jitter that is cut at nothing counts."""
        return sum(_mean_ms(words) for words in self.link.values())

    @property
    def loss(self):
        """Share of packets lost towards the right; None where not only loss limits TCP (jitter, reordering, a rate)."""
        words = self.words("right")
        if not self.link or re.search(r"\b(jitter|reorder|rate)\b", words):
            return None
        found = re.search(r"\bloss ([\d.]+)%", words)
        return float(found[1]) / 100 if found else 0.0


def load(path=FILE):
    """All profiles, {name: Profile}, in the file's order; a `LabError` that names what is wrong in it."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LabError(f"{path}: {error}") from None
    base = told.pop("base", None)
    if not isinstance(base, str):
        raise LabError(f'{path}: the way itself is missing: base = "0.3ms"')
    return {name: _profile(path, name, table, base) for name, table in told.items()}


def chosen(names, path=FILE):
    """The profiles of these names, in their order; a name that is none is an error that tells those that are."""
    known = load(path)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise LabError(f"no profile is called {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names]


def _profile(path, name, table, base):
    def bad(why):
        return LabError(f"{path}: [{name}]: {why}")

    if not isinstance(table, dict):
        raise bad("is no table")
    if extra := sorted(set(table) - _KEYS):
        raise bad(f"{', '.join(extra)}: no such key; there are {', '.join(sorted(_KEYS))}")
    if lacks := [key for key in ("title", "about") if key not in table]:
        raise bad(f"{' and '.join(lacks)} is missing")
    both, right, left = (table.get(key) for key in ("both", "right", "left"))
    ways = {"both": (both, both), "right, left": (right, left)}["both" if both is not None else "right, left"]
    if table.get("plain"):
        if any(way is not None for way in (both, right, left)):
            raise bad("a plain link has no words")
        link = {}
    elif None in ways:
        raise bad("tell `both` directions, or `right` and `left`, or that it is plain")
    else:
        link = {direction: f"base {base} {words}" for direction, words in zip(("right", "left"), ways)}
    return Profile(name, table["title"], table["about"], link, table.get("mtu", ETHERNET_MTU), table.get("path_mtu"))


def _mean_ms(words):
    """Mean delay of one direction: the base, and delay ± jitter evenly, where less than nothing is nothing."""
    base, delay, jitter = (_time_ms(words, word) for word in ("base", "delay", "jitter"))
    if jitter <= delay:
        return base + delay
    # Of the even spread from delay − jitter to delay + jitter only the part above nothing takes time.
    return base + (delay + jitter) ** 2 / (4 * jitter)


def _time_ms(words, word):
    found = re.search(rf"\b{word} ([\d.]+)(us|ms|s)\b", words)
    return float(found[1]) * _TIME_MS[found[2]] if found else 0.0
