"""How large programs may be, and what is in them (docs/footprint.md)."""

import re
import subprocess
from dataclasses import dataclass

from . import root

PAGE = root.ROOT / "docs" / "footprint.md"
# Growth without a new line in the page, as a factor: less is noise of compilers and of small changes.
GROWTH = 1.02
# A line of the history: program, processor, date, bytes, what changed.
LINE = re.compile(r"^\| (?P<program>taut[a-z-]*) \| (?P<target>[a-z0-9-]+) \| (?P<date>\d{4}-\d\d-\d\d) \| (?P<bytes>[\d,]+) \| (?P<what>.+) \|$", re.MULTILINE)
# What is in the node, by the first name in a symbol. The first pattern that matches counts.
PARTS = (
    ("the agent: host, settings, local API, names, exit nodes", r"taut_agent"),
    ("the command line", r"taut"),
    ("the data plane: lanes, packets, ciphers of our own, TUN, UDP, filter", r"taut_(lane|wire|tunnel|aegis|tun|udp|filter|packet|tally)|blake2"),
    ("the node's rules: peers, paths, relays, maps", r"taut_(node|path|relay|netmap|base|noise)|curve25519_dalek|x25519_dalek"),
    ("control channel: WebSocket, state", r"taut_(control|dial)"),
    ("TLS, and the signatures of certificates", r"rustls\w*|webpki|taut_pubkey"),
    ("ring: ciphers and hashes", r"ring\w*|aes_\w+|_aesni\w*|_vpaes\w*"),
    ("JSON", r"taut_json|serde\w*"),
    ("host: netlink, events, sandbox", r"taut_(netlink|event|sandbox)"),
    ("names", r"taut_dns"),
    ("port mappings", r"taut_(portmap|gateway)"),
    ("maps, lists and sorting, made for each type", r"alloc|hashbrown"),
    ("iterators, text, and the rest of Rust's library", r"core|std|str|u8|bool|compiler_builtins|libunwind"),
)
OTHER = "the C library, and functions without a name"
CONSTANTS = "texts, tables and headers"


@dataclass
class Line:
    """A size in the page's history."""

    program: str
    target: str
    date: str
    bytes: int
    what: str


def history(text):
    """Returns the lines of the page, in their order."""
    return [Line(**{**found.groupdict(), "bytes": int(found["bytes"].replace(",", ""))}) for found in LINE.finditer(text)]


def largest(text, program, target):
    """Returns how many bytes a program may have, or nothing where the page has no line of it."""
    found = [line.bytes for line in history(text) if (line.program, line.target) == (program, target)]
    return int(found[-1] * GROWTH) if found else None


def check(text, program, target, size):
    """Fails if a program grew and the page does not say why."""
    limit = largest(text, program, target)
    if limit and size > limit:
        raise root.Failed(f"{program} for {target} has {size:,} bytes, more than the {limit:,} that docs/footprint.md allows", "make it smaller, or add a line to that page that says what was worth it")


def part_of(symbol):
    """Returns the part that a demangled symbol belongs to."""
    found = re.match(r"<*(?:&|mut |\(|\[|dyn )*([A-Za-z_0-9]+)", symbol)
    name = found[1] if found else ""
    return next((part for part, pattern in PARTS if re.fullmatch(pattern, name)), OTHER)


def parts(listing, size):
    """Returns {part: bytes} for the output of `nm -S -C` and the size of the stripped file."""
    found = dict.fromkeys([*(part for part, _ in PARTS), OTHER, CONSTANTS], 0)
    for line in listing.splitlines():
        words = line.split(None, 3)
        # b: without bytes in the file.
        if len(words) == 4 and words[2] not in "bB":
            found[part_of(words[3])] += int(words[1], 16)
    found[CONSTANTS] = size - sum(found.values())
    return found


def symbols(file):
    """Returns the symbols of a program with their sizes."""
    return subprocess.run(["nm", "-S", "-C", file], check=True, capture_output=True, text=True).stdout


def table(found):
    """Returns the parts as a table, largest first."""
    total = sum(found.values())
    rows = [f"| {part} | {size / 1000:,.0f} | {size / total:.0%} |" for part, size in sorted(found.items(), key=lambda each: -each[1])]
    return "\n".join(["| part | kB | share |", "|---|--:|--:|", *rows, f"| **in all** | **{total / 1000:,.0f}** | |"])
