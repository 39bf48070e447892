"""Static programs for every processor, from the sources of a commit."""

import hashlib
import io
import platform
import re
import shutil
import subprocess
import tarfile
import time

from . import root, targets

# Where Debian has the source of the standard library, which is compiled with the programs.
LIBRARY = "/usr/lib/rustlib/src/rust/library"
UNITS = "dist/systemd"
# List of functions, in the order in which the linker places them in a program (`make order` writes it).
ORDER = "tools/shipping/order.txt"
# Share of the names in that list below which it counts as old. With an old list, a node at rest took 3.1 MB of memory instead of 2.5.
OF_USE = 0.8
# Functions that read tables for unwinding, `_Unwind_` before their names. Where no tables are, only a panic during a panic calls one, after its message and before it aborts: it aborts at that call.
UNWINDING = ("Backtrace", "FindEnclosingFunction", "GetCFA", "GetDataRelBase", "GetGR", "GetIP", "GetIPInfo", "GetLanguageSpecificData", "GetRegionStart", "GetTextRelBase", "SetGR", "SetIP")
# Crates none of whose code runs for a packet that goes by UDP. LLVM is told that their functions are cold; it then moves equal pieces of such functions into functions of their own (outlining): 52 kB of
# the node. Packets of a relay that is reached by https pass rustls and taut-dial, and are as fast.
SELDOM = (
    *("taut", "taut-agent", "taut-control", "taut-dial", "taut-dns", "taut-gateway", "taut-json", "taut-netlink", "taut-netmap", "taut-node", "taut-path", "taut-portmap", "taut-pubkey"),
    *("taut-release", "taut-sandbox", "rustls", "rustls-pki-types", "rustls-webpki"),
)
# Functions that differ in constants alone become one, where a panic aborts: 19 kB of the node.
MERGE = "-C llvm-args=-enable-global-merge-func"
# Outlines what is marked. LLVM outlines by itself for 32-bit and 64-bit Arm where code is built for size, and cannot do it for MIPS.
OUTLINE = "-C llvm-args=-enable-machine-outliner=conservative-pgo"
# Has cargo take libraries from that folder alone.
VENDORED = """
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "/vendor"
"""


def commit(name):
    """Returns the full name of a commit."""
    found = subprocess.run(["git", "-C", root.ROOT, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise root.Failed(f"this clone has no commit {name}", "name one that `git log` shows")
    return found.stdout.strip()


def date_of(name):
    """Returns the time of a commit, in seconds since 1970."""
    return int(subprocess.run(["git", "-C", root.ROOT, "show", "-s", "--format=%ct", name], capture_output=True, text=True, check=True).stdout)


def take_source(name):
    """Puts the files of a commit into the root. Files that are there with the same content stay as they are, so that what depends on them is not compiled again."""
    place = root.INSIDE["/src"]
    wanted = extract(name, place)
    if place / UNITS not in wanted:
        # Release 0.1.0 had no units; the first ones fit its options.
        first = subprocess.run(["git", "-C", root.ROOT, "rev-list", "--reverse", "HEAD", "--", UNITS], capture_output=True, text=True, check=True).stdout.split()
        wanted |= extract(first[0], place, UNITS) | {(place / UNITS).parent}
    for path in sorted(place.rglob("*"), reverse=True):
        if path not in wanted:
            path.rmdir() if path.is_dir() else path.unlink()


def extract(name, place, *paths):
    """Writes files of a commit into a folder; returns their paths."""
    archive = subprocess.run(["git", "-C", root.ROOT, "archive", name, *paths], capture_output=True, check=True).stdout
    written = set()
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            path = place / member.name
            written.add(path)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                content = files.extractfile(member).read()
                if not path.is_file() or path.read_bytes() != content:
                    path.write_bytes(content)
                path.chmod(member.mode & 0o755)
    return written


def version():
    """Returns the version that the sources have."""
    return re.search(r'^version = "([^"]+)"', (root.INSIDE["/src"] / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


def vendor(place=None):
    """Fetches the libraries that Cargo.lock names, with their checksums, and those of the standard library. `place` has the sources; without it, those in the root."""
    folders = {**root.INSIDE, **({"/src": place} if place else {})}
    lock = (folders["/src"] / "Cargo.lock").read_bytes()
    wanted = hashlib.sha256(lock + root.output("rustc", "--version").encode()).hexdigest()
    stamp = root.INSIDE["/build"] / "vendored"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    root.say("fetching the libraries that Cargo.lock names")
    root.output("sh", "-c", f"cd /src && cargo vendor --quiet --locked --versioned-dirs --sync {LIBRARY}/Cargo.toml /vendor", online=True, folders=folders)
    home = root.INSIDE["/build"] / "home" / ".cargo"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(VENDORED)
    stamp.write_text(wanted)


def build(target, date):
    """Builds the programs of a target."""
    all_programs = targets.there(root.INSIDE["/src"], target.programs)
    # Cargo gives all builds of a package one name, so the one that keeps it comes last.
    for program in sorted(all_programs, key=lambda program: program.features is None):
        cargo(target, date, program)
        if program.features is not None:
            shutil.copy(built(target, program.installed), binary(target, program))
    for program in all_programs:
        if not binary(target, program).exists():
            raise root.Failed(f"{target.name}: cargo made no {program.name}", "the lines above say why")
        if not target.fixed and not is_position_independent(binary(target, program)):
            raise root.Failed(f"{target.name}: {program.name} has fixed addresses, which makes an attack on it easier", "see how it is linked, in tools/shipping/programs.py")


def is_position_independent(file):
    """Returns true if the kernel may load a little-endian ELF program at any address: its type is ET_DYN, 3."""
    with file.open("rb") as program:
        return program.read(18)[16:] == b"\3\0"


def binary(target, program):
    """Returns the path of a built program."""
    return built(target, program.name)


def built(target, name):
    return root.INSIDE["/build"] / "target" / target.rust / "release" / name


def cargo(target, date, program, with_symbols=False):
    """Builds a program for one target, with the standard library. Nothing is fetched. One call for several would give each the features that any of them needs: 35 kB of ciphers in a relay."""
    root.say(f"building {program.name} for {target.name} (minutes)")
    # A panic of the coordinator ends what it happened in, and not the channels of all nodes (fault N7).
    panic = "unwind" if program is targets.COORDINATOR else "abort"
    # The C library comes from zig, and not with Rust's standard library, which Debian has for this host's processor only. A panic that aborts unwinds no stack, so tables
    # for that are dead weight: a tenth of the node.
    options = "-C link-self-contained=no" + (f" -C force-unwind-tables=no {MERGE}" if panic == "abort" else "")
    without = " ".join(["", "--no-eh-frame-hdr", "-T", "$WITHOUT_UNWINDING", *(f"--defsym=_Unwind_{name}=abort" for name in UNWINDING)])
    linker = "--icf=all" + (without if panic == "abort" else "")
    if target.fixed:
        # At another address than that of the link, a daemon of these targets writes to its own first page and ends (seen under qemu with zig's linker).
        options += " -C relocation-model=static"
    else:
        # zig takes rustc's own word for it, `-static-pie`, and does not do it. Addresses to adjust are a list of 24 bytes each otherwise: 90 kB of the node.
        options += " -C link-arg=-pie"
        linker += " --pack-dyn-relocs=relr"
    order = root.INSIDE["/src"] / ORDER
    if order.exists():
        linker += " --symbol-ordering-file $ORDER --no-warn-symbol-ordering"
    # A node and a relay are to be small: a standard library that is built for size, and without what names functions in a backtrace, which a program without symbols cannot.
    size = ["-Zbuild-std-features=optimize_for_size"] if panic == "abort" else []
    words = ["--release", "--locked", "--offline", "--quiet", "--target", target.rust, f"-Zbuild-std=std,panic_{panic}", *size, "--config", f'profile.release.panic="{panic}"']
    if target.outlined and panic == "abort":
        options += f" {OUTLINE}"
        words += ["-Zprofile-rustflags", *(word for name in SELDOM for word in ("--config", f'profile.release.package.{name}.rustflags=["-Cllvm-args=-force-attribute=cold"]'))]
    if with_symbols:
        # Not by the profile: where a package has flags of its own, cargo asks for `strip` whatever the profile says.
        options += " -C strip=none"
    flags = f"CARGO_TARGET_{target.rust.upper().replace('-', '_')}_RUSTFLAGS={options}"
    chosen = ["-p", program.crate, *features(program)]
    # RUSTC_BOOTSTRAP: building the standard library is a feature of nightly compilers only, and this compiler belongs to the library's source.
    # cargo-zigbuild prefers the module of Python to the command zig.
    zig = ["CARGO_ZIGBUILD_PYTHON_PATH=/bin/false", f"LINKER_OPTIONS={linker}", f"ORDER=/src/{ORDER}"]
    link_anew(target, program, linker)
    variables = [*zig, "RUSTC_BOOTSTRAP=1", "CARGO_TARGET_DIR=/build/target", f"SOURCE_DATE_EPOCH={date}", flags]
    begun = time.time()
    root.run("env", "-C", "/src", *variables, "nice", "cargo-zigbuild", "zigbuild", *words, *chosen)
    # Cargo links to a name of its own, one for each set of features, and only what changed.
    for file in (built(target, targets.NODE.installed).parent / "deps").glob(f"{targets.NODE.installed}-*.placed"):
        if program is targets.NODE and file.stat().st_mtime >= begun:
            root.say(f"{targets.NODE.name} for {target.name}: {placed(file)}")


def placed(file):
    """Says how many functions of the list a program has, from the file that the linker left (zig.py)."""
    there, names = (int(word) for word in file.read_text(encoding="utf-8").split())
    told = f"{there:,} of {names:,} functions of {ORDER} are in it"
    if there < names * OF_USE:
        told += ": the list is old, run `make order`"
    return told


def link_anew(target, program, linker):
    """Has cargo link programs again if they were linked in another way before: it knows nothing of the linker's options and files."""
    order = root.INSIDE["/src"] / ORDER
    texts = (linker, root.ZIG.read_text(encoding="utf-8"), order.read_text(encoding="utf-8") if order.exists() else "")
    wanted = hashlib.sha256(repr(texts).encode()).hexdigest()
    built_to = root.INSIDE["/build"] / "target" / target.rust
    stamp = built_to / f"linked-{program.name}"
    if not stamp.exists() or stamp.read_text() != wanted:
        for file in (built_to / "release" / "deps").glob(f"{program.installed.replace('-', '[-_]')}-*"):
            file.unlink()
        built_to.mkdir(parents=True, exist_ok=True)
        stamp.write_text(wanted)


def features(program):
    """Returns the words by which cargo builds a program with the features that it has."""
    return [] if program.features is None else ["--no-default-features", f"--features={','.join(program.features)}"]


def own():
    """Returns the target of this host's processor, whose programs run here."""
    return next((target for target in targets.TARGETS if target.rust.startswith(platform.machine())), targets.TARGETS[0])
