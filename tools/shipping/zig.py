#!/usr/bin/python3
"""zig, whose linker also gets the options in LINKER_OPTIONS: the command `zig` of the root in which packages are built.

zig's compiler driver knows where its C library and start files are, but passes few options on to its linker, which is LLVM's lld. So it links once and says with which
words, and the linker is called once more with these words and the options. `$WITHOUT_UNWINDING` in them is the linker script below, which leaves tables for unwinding out: those of
Rust's code are not made where a panic aborts, and those of assembly and of the C library have no reader then. `$ORDER` are the symbols of the functions in the file that the variable ORDER
names, in that order; it has their names as people read them, because a symbol has a part that changes with every build. How many of the names a program has is written beside it,
into a file of its name with `.placed`, because cargo keeps to itself what a linker prints.
"""

import os
import subprocess
import sys
import tempfile

ZIG = (sys.executable, "-m", "ziglang")
LINKER = "ld.lld "
# What zig prints of its own steps.
STEPS = (LINKER, "ar ")
WITHOUT_UNWINDING = "SECTIONS { /DISCARD/ : { *(.eh_frame) } } INSERT AFTER .text;\n"


def links(words):
    """Returns true if the words are a call of the compiler driver that links."""
    return words[:1] in (["cc"], ["c++"]) and "-o" in words and not {"-c", "-E", "-S"} & set(words)


def nm(inputs, *words):
    """Returns what nm prints of these files, a line for each symbol."""
    return subprocess.run(["nm", "--quiet", "--defined-only", "--format=just-symbols", *words, *inputs], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def ordered(inputs, names):
    """Returns the symbols in these object files and libraries that have one of the names, in the order of the names, and how many of the names there are."""
    place = {name: number for number, name in reversed(list(enumerate(names)))}
    # Both outputs have the same lines, but for the names.
    found = {symbol: place[name] for symbol, name in zip(nm(inputs), nm(inputs, "--demangle"), strict=True) if name in place}
    return sorted(found, key=lambda symbol: (found[symbol], symbol)), len(set(found.values()))


def main():
    words, options = sys.argv[1:], os.environ.get("LINKER_OPTIONS", "")
    # cargo-zigbuild puts the words of a link into a file.
    given = [word for name in words for word in (open(name[1:], encoding="utf-8").read().split() if name.startswith("@") else [name])]
    if not options or not links(given):
        os.execv(ZIG[0], [*ZIG, *words])
    driver = subprocess.run([*ZIG, *words], env={**os.environ, "ZIG_VERBOSE_LINK": "1"}, stderr=subprocess.PIPE, text=True, check=False)
    lines = driver.stderr.splitlines()
    sys.stderr.writelines(f"{line}\n" for line in lines if not line.startswith(STEPS))
    if driver.returncode:
        return driver.returncode
    # Start files are linked, too, but not to the program.
    output = given[given.index("-o") + 1]
    last = next((line.split() for line in reversed(lines) if line.startswith(LINKER) and f" -o {output} " in line), None)
    if not last:
        sys.exit(f"zig: it does not say how it linked {output}, so {options} are not in it\n    another version of zig says it differently: see tools/shipping/zig.py")
    files = {"$WITHOUT_UNWINDING": WITHOUT_UNWINDING}
    if "$ORDER" in options.split():
        with open(os.environ["ORDER"], encoding="utf-8") as order:
            names = [line.rstrip("\n") for line in order if not line.startswith("#")]
        symbols, placed = ordered([word for word in last if word.endswith((".o", ".rlib", ".a"))], names)
        files["$ORDER"] = "".join(f"{symbol}\n" for symbol in symbols)
        with open(f"{output}.placed", "w", encoding="utf-8") as file:
            file.write(f"{placed} {len(set(names))}\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            with open(f"{folder}/{name[1:]}", "w", encoding="utf-8") as file:
                file.write(text)
        chosen = [f"{folder}/{word[1:]}" if word in files else word for word in options.split()]
        return subprocess.run([*ZIG, *last, *chosen], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
