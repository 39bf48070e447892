"""Makes packages, images, lists of components and the index out of programs that are built. Runs in the root, where Python and its libraries are the same on every host.

    python3 -m shipping.assemble VERSION DATE TARGET…     writes to /out
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import images, packages, sbom, targets

BUILT, OUT, STAGE = Path("/build/target"), Path("/out"), Path("/tmp/stage")
# Version of the form of index.json.
SCHEMA = 1


def binary(program, target):
    return BUILT / target.rust / "release" / program.name


def manuals(chosen):
    """Returns the folder of the manual pages and completions of the programs that these targets have, written by the programs themselves; an early release has none."""
    place, tool, programs = Path("/tmp/manuals"), Path("/src/tools/manuals.py"), Path("/tmp/programs")
    programs.mkdir()
    for program in (program for program in targets.PROGRAMS if not program.instead_of and program is not targets.USERSPACE):
        target = next((each for each in chosen if program in each.programs), None)
        if target is None:
            continue
        runner = [] if target.rust.startswith(os.uname().machine) else [target.qemu]
        script = programs / program.name
        script.write_text(f"#!/bin/sh\nexec {' '.join([*runner, str(binary(program, target))])} \"$@\"\n")
        script.chmod(0o755)
    place.mkdir()
    if tool.exists():
        subprocess.run([sys.executable, tool, programs, place], check=True, stdout=subprocess.DEVNULL)
    return place


def record(file, kind, name, version, architecture):
    """Returns the entry of a file in the index."""
    content = file.read_bytes()
    return {"file": file.name, "kind": kind, "name": name, "version": version, "architecture": architecture, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def ship(program, target, pages, version, stamp, date):
    """Makes everything of one program for one processor; yields entries of the index."""
    parts = sbom.components(program, target)
    stage = STAGE / f"{program.name}-{target.name}"
    plain = OUT / f"{program.name}_{version}_{target.name}"
    shutil.copyfile(binary(program, target), plain)
    plain.chmod(0o755)
    yield record(plain, "program", program.name, version, target.name)
    listed = OUT / f"{program.name}_{version}_{target.name}.cdx.json"
    listed.write_text(sbom.document(program, target, version, parts), encoding="utf-8")
    yield record(listed, "sbom", program.name, version, target.name)
    licences = packages.write(stage, "licences.txt", sbom.licences(parts))
    copy = OUT / f"licences-{program.name}.txt"
    if not copy.exists():
        shutil.copyfile(licences, copy)
        yield record(copy, "licences", program.name, version, "all")
    for kind in (kind for kind in targets.KINDS if kind in program.kinds and getattr(target, kind)):
        own = packages.version_for(kind, *stamp)
        found = packages.contents(program, kind, plain, pages, licences, stage / kind)
        yield record(packages.make(program, target, kind, own, found, stage / kind, date, OUT), kind, program.name, own, target.name)


def release(version, date, entries):
    """Returns the list that `taut update` reads (docs/spec/release.md): the programs, without packages and images, which other programs install."""
    lines = ["taut-release 1", f"version {version}", f"made {date}"]
    programs = (entry for entry in entries if entry["kind"] == "program")
    lines += [f"program {entry['name']} {entry['architecture']} {entry['bytes']} {entry['sha256']} {entry['file']}" for entry in programs]
    return "\n".join(lines) + "\n"


def main(version, date, *names):
    chosen = [targets.named(name) for name in names]
    date, moment = int(date), time.strftime("%Y%m%d%H%M", time.gmtime(int(date)))
    os.environ["SOURCE_DATE_EPOCH"] = str(date)
    os.umask(0o022)
    for file in OUT.iterdir():
        file.unlink()
    pages, entries = manuals(chosen), []
    whole = re.sub(r"-dev$", f"-dev.{moment}", version)
    for target in chosen:
        for program in targets.there(packages.SOURCE, target.programs):
            entries += ship(program, target, pages, whole, (version, moment), date)
    for program in (program for program in targets.PROGRAMS if program is not targets.USERSPACE):
        binaries = [(target, binary(program, target)) for target in chosen if program in target.programs and target.oci and "oci" in program.kinds]
        if binaries:
            file = images.make(program, binaries, whole, date, OUT)
            entries.append(record(file, "oci", program.name, whole, "+".join(target.name for target, _ in binaries)))
    (OUT / "index.json").write_text(json.dumps({"schema": SCHEMA, "version": whole, "files": entries}, indent=1) + "\n", encoding="utf-8")
    (OUT / "RELEASE").write_text(release(whole, date, entries), encoding="utf-8")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(OUT.iterdir())]
    (OUT / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
