#!/usr/bin/env python3
"""Builds static programs, packages and images from a commit, into target/packages (docs/internals/packages.md). Needs root and mmdebstrap.

    tools/packages.py [--targets NAMES] [--commit COMMIT] [--output FOLDER]    builds
    tools/packages.py --twice [--targets NAMES]                                builds twice in different folders, and compares every byte
    tools/packages.py --run [--targets NAMES]                                  two nodes of each target that is built shake hands, under qemu where needed
    tools/packages.py --check FOLDER [--key FILE]                              checks the signature, and the checksums of the files that are there

NAMES are separated by commas; without them, all of tools/shipping/targets.py. Everything is built in a Debian root of its own below target/packages-root, from the files
of a commit, never from a working tree. TAUT_SIGNING_KEY names the key that signs.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shipping import handshake, programs, root, signing, sizes, targets  # noqa: E402

OUTPUT = root.ROOT / "target" / "packages"


def build(commit, chosen, output):
    """Builds everything and signs it."""
    root.prepare()
    programs.take_source(commit)
    programs.vendor()
    date = programs.date_of(commit)
    for target in chosen:
        programs.build(target, date)
    root.say("making packages")
    tools = {"/tools": root.ROOT / "tools", "/dist": root.ROOT / "dist"}
    words = ["python3", "-B", "-m", "shipping.assemble", programs.version(), date, *(target.name for target in chosen)]
    root.run("env", "-C", "/tools", *words, folders={**root.INSIDE, **tools})
    made = root.INSIDE["/out"]
    signing.sign(made)
    remove(output)
    shutil.copytree(made, output)
    files = json.loads((output / "index.json").read_text())["files"]
    root.say(f"{len(files)} files in {root.shown(output)}; index.json lists them, and SHA256SUMS is signed")
    # Last, because packages that are too large are packages, too.
    allowed = sizes.PAGE.read_text(encoding="utf-8")
    for file in (file for file in files if file["kind"] == "program"):
        sizes.check(allowed, file["name"], file["architecture"], file["bytes"])


def remove(output):
    """Removes what an earlier build wrote, and nothing else."""
    if output.exists() and any(output.iterdir()) and not (output / "index.json").exists():
        raise root.Failed(f"{output} has other files than packages", "name another folder with --output")
    shutil.rmtree(output, ignore_errors=True)


def compare(first, second):
    """Returns the files that differ between two builds."""
    names = sorted({file.name for folder in (first, second) for file in folder.iterdir()} - {*map(signing.signature, signing.SIGNED), signing.PUBLIC})
    return [name for name in names if not ((first / name).exists() and (second / name).exists() and filecmp.cmp(first / name, second / name, shallow=False))]


def build_twice(words):
    """Builds in two folders that share nothing but this clone; returns the exit status."""
    folders = []
    for name in ("first", "other/place/second"):
        place = root.ROOT / "target" / "packages-twice" / name
        folders.append(place / "packages")
        call = [sys.executable, __file__, *words, "--output", folders[-1]]
        ended = subprocess.run(call, check=False, env={**os.environ, "TAUT_PACKAGES_ROOT": str(place / "root")})
        if ended.returncode:
            return ended.returncode
    different = compare(*folders)
    for name in different:
        print(f"packages: {name} differs between the two builds", file=sys.stderr)
    if not different:
        root.say(f"both builds have the same {len(list(folders[0].iterdir())) - len(signing.SIGNED) - 1} files, byte for byte")
    return bool(different)


def check(folder, key):
    """Checks the signature and the checksums of a folder of packages, and says what was not checked."""
    found = signing.check(folder, key or folder / signing.PUBLIC)
    if not key:
        print(f"packages: warning: checked with the folder's own key, {folder / signing.PUBLIC}, which proves only that the files belong together\n    name a key that you trust with --key FILE", file=sys.stderr)
    if found.unlisted:
        print(f"packages: warning: not checked, because {signing.SUMS} does not list it: {', '.join(found.unlisted)}", file=sys.stderr)
    absent = f"; {len(found.absent)} more that {signing.SUMS} lists are not here" if found.absent else ""
    print(f"signature and checksums are right: {len(found.right)} file{'' if len(found.right) == 1 else 's'} checked{absent}")


def parse():
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [target.name for target in targets.TARGETS]
    parser.add_argument("--targets", metavar="NAMES", default=",".join(names), help="processors, separated by commas; default: %(default)s")
    parser.add_argument("--commit", default="HEAD", help="commit whose files are built; default: %(default)s. Changes that are not committed are not in it")
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=OUTPUT, help=f"folder for the packages; those of an earlier build there are removed. Default: {root.shown(OUTPUT)}")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--twice", action="store_true", help="build twice in different folders, and compare every byte")
    instead.add_argument("--run", action="store_true", help="build nothing; two nodes of each processor shake hands, under qemu where needed")
    instead.add_argument("--check", type=Path, metavar="FOLDER", help=f"build nothing; check the signature of {signing.SUMS} in this folder, and the checksums of the files that are there. Needs neither root nor mmdebstrap")
    parser.add_argument("--key", type=Path, metavar="FILE", help=f"public key for --check, in PEM. Default: FOLDER/{signing.PUBLIC}, which proves only that the files belong together")
    options = parser.parse_args()
    if options.key and not options.check:
        parser.error("--key is for --check; TAUT_SIGNING_KEY names the key that signs packages")
    return options


def main():
    options = parse()
    if options.check:
        check(options.check, options.key)
        return 0
    chosen = [targets.named(name) for name in options.targets.split(",")]
    if options.run:
        return max(handshake.run(target) for target in chosen)
    commit = programs.commit(options.commit)
    if options.twice:
        return build_twice(["--targets", options.targets, "--commit", commit])
    build(commit, chosen, options.output.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
