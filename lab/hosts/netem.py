"""Impairment by the emulator of the kernel at the interfaces of the hosts, where most people place it: for comparison with linkbox.

netem acts on what the kernel passes to it, superpackets included (docs/linkbox.md, "Why not netem"). It cuts its whole delay off at zero; linkbox
cuts off only the part on top of the base.
"""

import re
import subprocess

from . import leftovers
from .wait import LabError

_TIME_US = {"us": 1, "ms": 1_000, "s": 1_000_000}


def available():
    """Returns true if this kernel has netem; it tries netem in a temporary namespace."""
    name = leftovers.namespace_name("netem")
    inside = ("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    try:
        done = [subprocess.run(words, capture_output=True, check=False).returncode for words in (("ip", "netns", "add", name), inside)]
        return not any(done)
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def words(arguments):
    """Translates arguments of linkbox to arguments of netem. Raises a `LabError` that names arguments without an equivalent."""
    found = _parsed(arguments)
    delay_us = sum(_us(found.pop(name, ["0us"])[0]) for name in ("base", "delay"))
    jitter = found.pop("jitter", [])
    parts = ["delay", f"{delay_us:g}us", *jitter]
    for name in ("loss", "duplicate", "reorder", "rate"):
        values = found.pop(name, [])
        parts += [name, *values] if values else []
    if found:
        raise LabError(f"netem has no equivalent for {', '.join(found)}")
    return parts


def impair(host, arguments, interface="eth0"):
    """Impairs all packets that leave the host from now on."""
    host.run("tc", "qdisc", "add", "dev", interface, "root", "netem", *words(arguments))


def _parsed(arguments):
    """Returns {word: its values} of the arguments of linkbox. Values begin with a digit."""
    found = {}
    for word in arguments.split():
        if word[0].isdigit():
            found[next(reversed(found))].append(word)
        else:
            found[word] = []
    return found


def _us(time):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", time).groups()
    return float(number) * _TIME_US[unit]
