#!/usr/bin/env python3
"""Writes core/netmap/src/suffixes.bin: the rules of the Public Suffix List with two or more labels, as sorted hashes of 24 bits. A node asks its user before it lets a
coordinator answer for such a domain (fault E17). A hash that another domain shares costs one needless question: that happens to one domain in 700.

    tools/suffixes.py [LIST]    LIST is the list of Debian's package `publicsuffix` by default

The committed table was made from version 20230209.2326-1 of that package. The list (https://publicsuffix.org, MPL 2.0) is not copied: the table has hashes only.
"""

import sys
from pathlib import Path

LIST = Path("/usr/share/publicsuffix/public_suffix_list.dat")
TABLE = Path(__file__).resolve().parent.parent / "core" / "netmap" / "src" / "suffixes.bin"


def fnv1a(text):
    """Returns the lowest 24 bits of the hash FNV-1a with 64 bits, as core/netmap/src/suffixes.rs computes it."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value & 0xFFFFFF


def rules(text):
    """Returns the rules with two or more labels, in the spelling of the DNS."""
    for line in text.splitlines():
        rule = line.split()[0] if line.split() else ""
        if not rule or rule.startswith("//") or "." not in rule:
            continue
        mark = "!" if rule.startswith("!") else ""
        labels = rule.removeprefix("!").split(".")
        yield mark + ".".join(label if label == "*" else label.encode("idna").decode().lower() for label in labels)


def main():
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else LIST
    if not source.exists():
        sys.exit(f"suffixes.py: there is no {source}; install Debian's package publicsuffix, or name the list")
    hashes = sorted({fnv1a(rule) for rule in rules(source.read_text())})
    TABLE.write_bytes(b"".join(value.to_bytes(3, "big") for value in hashes))
    print(f"{TABLE.name}: {len(hashes)} rules, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
