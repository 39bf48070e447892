#!/usr/bin/env python3
"""Checks the sources for processors that a developer's machine is not: with 32 bits, and with the other order of bytes. Needs root and mmdebstrap.

    tools/targets.py check [NAME ...]    compiles node and relay as far as `cargo check` does (minutes the first time)
    tools/targets.py test [NAME ...] [--crates NAMES]
                                         runs the unit tests of core/, or of these crates such as base,wire, under qemu-user

NAMES are those of tools/shipping/targets.py; without them armv7 and mips, of which the first has 32 bits and the second also the most significant byte first and no
atomic instructions for 64 bits. Everything runs in the root that `make packages` uses, from this working tree: Debian's compiler has the source of the standard
library there, which rustup would have to fetch for each processor. Nothing is installed on the host, and nothing is fetched while it compiles.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shipping import programs, root, targets  # noqa: E402

# A 32-bit processor, and a big-endian one.
USUAL = ("armv7", "mips")
CHECKED = (targets.NODE, targets.RELAY)
# Values that a property test draws under an emulator, which takes twenty times as long as the processor.
CASES = 16


def crates():
    """Returns the names of the crates in core/."""
    return sorted(f"taut-{folder.parent.name}" for folder in (root.ROOT / "core").glob("*/Cargo.toml"))


def cargo(target, verb, *words, std="std,panic_abort"):
    """Returns the command that runs cargo for a target in the root, with this working tree as /src."""
    flags = "-C link-self-contained=no" + (" -C relocation-model=static" if target.name.startswith("mips") else "")
    name = target.rust.upper().replace("-", "_")
    variables = {
        # The standard library is compiled, which is a feature of nightly compilers, with the compiler that its source belongs to.
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_TARGET_DIR": "/build/check",
        f"CARGO_TARGET_{name}_RUSTFLAGS": flags,
        f"CARGO_TARGET_{name}_RUNNER": target.qemu,
        "PROPTEST_CASES": str(CASES),
    }
    given = [f"{variable}={value}" for variable, value in variables.items() if value]
    command = ["cargo-zigbuild", verb, "--quiet", "--locked", "--offline", "--profile", "ci", "--target", target.rust, f"-Zbuild-std={std}", *words]
    return root.command("env", "-C", "/src", *given, *command, folders={**root.INSIDE, "/src": root.ROOT})


def check(target):
    """Returns the exit status of `cargo check` for a target."""
    root.say(f"checking {target.name} ({target.rust})")
    chosen = [word for program in CHECKED for word in ("-p", program.crate)]
    return subprocess.run(cargo(target, "check", *chosen), check=False).returncode


def test(target, names):
    """Returns the exit status of the unit tests of crates for a target."""
    root.say(f"running the unit tests of {', '.join(names)} for {target.name} ({target.rust}) under {target.qemu}")
    chosen = [word for name in names for word in ("-p", name)]
    return subprocess.run(cargo(target, "test", "--lib", "--no-fail-fast", *chosen, std="std,panic_abort,panic_unwind,test"), check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("check", "test"))
    parser.add_argument("names", nargs="*", metavar="NAME", default=USUAL)
    parser.add_argument("--crates", help="only these crates of core/, separated by commas")
    options = parser.parse_args()
    names = [f"taut-{name}" for name in options.crates.split(",")] if options.crates else crates()
    unknown = sorted(set(names) - set(crates()))
    if unknown:
        parser.error(f"there is no crate {', '.join(unknown)} in core/")
    chosen = [targets.named(name) for name in options.names]
    root.prepare()
    programs.vendor(root.ROOT)
    broken = [target.name for target in chosen if (check(target) if options.what == "check" else test(target, names))]
    if broken:
        raise root.Failed(f"{options.what} failed for {', '.join(broken)}", "the lines above say why")
    return 0


if __name__ == "__main__":
    sys.exit(main())
