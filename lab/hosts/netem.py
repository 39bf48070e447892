"""Impairment by the kernel's own emulator at the hosts' own interfaces: where most people place it, for comparison with linkbox.

netem draws for what the kernel hands it, superpackets included (docs/linkbox.md, "Why not netem"). Its delay is cut at nothing as a whole; linkbox cuts
what comes on top of the base.
"""

import re
import subprocess

from . import leftovers
from .wait import LabError

_TIME_US = {"us": 1, "ms": 1_000, "s": 1_000_000}


def available():
    """Whether this kernel has it: tried in a namespace of its own."""
    name = leftovers.namespace_name("netem")
    inside = ("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    try:
        done = [subprocess.run(words, capture_output=True, check=False).returncode for words in (("ip", "netns", "add", name), inside)]
        return not any(done)
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def words(told):
    """netem's words for linkbox's; a `LabError` names what it has no word for."""
    found = _parsed(told)
    delay_us = sum(_us(found.pop(name, ["0us"])[0]) for name in ("base", "delay"))
    jitter = found.pop("jitter", [])
    parts = ["delay", f"{delay_us:g}us", *jitter]
    for name in ("loss", "duplicate", "reorder", "rate"):
        values = found.pop(name, [])
        parts += [name, *values] if values else []
    if found:
        raise LabError(f"netem has no word for {', '.join(found)}")
    return parts


def impair(host, told, interface="eth0"):
    """From now on all that leaves the host meets it."""
    host.run("tc", "qdisc", "add", "dev", interface, "root", "netem", *words(told))


def _parsed(told):
    """{word: its values} of linkbox's words: values begin with a digit."""
    found = {}
    for word in told.split():
        if word[0].isdigit():
            found[next(reversed(found))].append(word)
        else:
            found[word] = []
    return found


def _us(time):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", time).groups()
    return float(number) * _TIME_US[unit]
