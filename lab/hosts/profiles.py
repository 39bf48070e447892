"""Named links between hosts, from `profiles.toml`.

    profiles.load()["medium"].words("right")     # arguments of linkbox for packets from the first host
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
    """A link."""

    name: str
    title: str
    about: str
    # Arguments of linkbox per direction, with the base; empty for a plain link, which has no linkbox.
    link: dict = field(default_factory=dict)
    # MTU of the interfaces of the hosts, in bytes.
    mtu: int = ETHERNET_MTU
    # MTU of a router on the path, in bytes. The router drops larger packets without an ICMP message.
    path_mtu: int | None = None

    @property
    def emulated(self):
        """Returns true if linkbox is between the hosts."""
        return bool(self.link)

    def words(self, direction):
        """Returns the arguments of linkbox for "right" (packets from the first host) or "left"."""
        return self.link.get(direction, "")

    @property
    def round_trip_ms(self):
        """Mean round-trip time of the link in milliseconds, without queueing. Counts jitter that is cut off at zero."""
        return sum(_mean_ms(words) for words in self.link.values())

    @property
    def loss(self):
        """Share of packets lost towards the right; None if jitter, reordering or a rate also limits TCP."""
        words = self.words("right")
        if not self.link or re.search(r"\b(jitter|reorder|rate)\b", words):
            return None
        found = re.search(r"\bloss ([\d.]+)%", words)
        return float(found[1]) / 100 if found else 0.0


def load(path=FILE):
    """Returns all profiles, {name: Profile}, in the order of the file. Raises a `LabError` that names an error in the file."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LabError(f"{path}: {error}") from None
    base = content.pop("base", None)
    if not isinstance(base, str):
        raise LabError(f'{path}: the base of all links is missing: base = "0.3ms"')
    return {name: _profile(path, name, table, base) for name, table in content.items()}


def chosen(names, path=FILE):
    """Returns the profiles of these names, in their order. Raises a `LabError` that lists the known names if one is unknown."""
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
    """Returns the mean delay of one direction: the base, plus a uniform delay ± jitter that is cut off at zero."""
    base, delay, jitter = (_time_ms(words, word) for word in ("base", "delay", "jitter"))
    if jitter <= delay:
        return base + delay
    # Of the uniform range from delay − jitter to delay + jitter, only the part above zero adds delay.
    return base + (delay + jitter) ** 2 / (4 * jitter)


def _time_ms(words, word):
    found = re.search(rf"\b{word} ([\d.]+)(us|ms|s)\b", words)
    return float(found[1]) * _TIME_MS[found[2]] if found else 0.0
