"""Packages of one program for one processor, made by nfpm. Runs in the root (assemble.py)."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

from . import targets

SOURCE = Path("/src")
# The scripts of packages: those of the commit, and for a release that had none those of this clone.
SCRIPTS = (SOURCE / "dist" / "packages", Path("/dist/packages"))
ENDS = {"deb": "deb", "rpm": "rpm", "apk": "apk", "archlinux": "pkg.tar.zst", "ipk": "ipk"}
# Kinds whose systems have systemd, OpenRC and procd.
SERVICES = {"deb": "systemd", "rpm": "systemd", "archlinux": "systemd", "apk": "openrc", "ipk": "openwrt"}
# Units (a program without a service of its own has none): those whose names belong to a package, those that are switched on with it, those that are started, and those that are stopped before it is removed.
UNITS = {
    "taut": {"UNITS": "taut.service 'taut@*.service'", "ENABLE": "taut.service taut-kill-switch.service", "START": "taut.service", "STOP": "taut.service 'taut@*.service' taut-dns.socket taut-kill-switch.service", "DISABLE": "taut.service taut@.service taut-kill-switch.service"},
    # Servers need settings before they can be of use.
    "taut-relay": {"UNITS": "taut-relay.service", "ENABLE": "", "START": "", "STOP": "taut-relay.service", "DISABLE": "taut-relay.service"},
    "taut-coordinator": {"UNITS": "taut-coordinator.service", "ENABLE": "", "START": "", "STOP": "taut-coordinator.service", "DISABLE": "taut-coordinator.service"},
}


def version_for(kind, version, stamp):
    """Returns a version as this kind of package writes it. A version between releases sorts before the release, and later ones after earlier ones."""
    if not version.endswith("-dev"):
        return version
    before = {"apk": "_pre", "archlinux": "dev"}.get(kind, "~dev")
    return f"{version.removesuffix('-dev')}{before}{stamp}"


def file_name(program, kind, version, architecture):
    """Returns the name of a package's file."""
    return f"{program.name}_{version}_{architecture}.{ENDS[kind]}"


def units(program):
    """Returns {path in the package: text} of the program's units for systemd."""
    found = {}
    for file in sorted((SOURCE / "dist" / "systemd").iterdir()):
        owner = next((name for name in ("taut-coordinator", "taut-relay") if file.name.startswith(name)), "taut")
        if owner == program.installed:
            text = file.read_text(encoding="utf-8").replace("/usr/local/bin/", "/usr/bin/")
            # The first lines tell how to install without a package.
            text = re.sub(r"\A(#.*\n)+", f"# Part of the package {program.name}. To change settings: systemctl edit {file.name}\n", text)
            found[f"/usr/lib/systemd/system/{file.name}"] = text
    return found


# Where the node's files for procd go, by the ends of their names, and their modes. Those for OpenRC are laid out as below /etc.
PROCD = {
    "taut.init": ("/etc/init.d/taut", 0o755),
    "taut.config": ("/etc/config/taut", 0o644),
    "taut.keep": ("/lib/upgrade/keep.d/taut", 0o644),
    "taut.firewall": ("/etc/uci-defaults/70-taut", 0o755),
}


def scripts_of_services(program, system):
    """Returns {path in the package: (text, mode)} of the scripts for OpenRC or procd."""
    base, found = SOURCE / "dist" / system, {}
    for file in sorted(base.rglob("*")):
        if file.is_file() and owner_of(file, base) == program.installed:
            text = file.read_text(encoding="utf-8").replace("/usr/local/bin/", "/usr/bin/")
            path, mode = f"/etc/{file.relative_to(base)}", 0o755 if "init.d" in file.parts else 0o644
            if system == "openwrt":
                path, mode = PROCD[file.name]
            found[path] = (text, mode)
    return found


def owner_of(file, base):
    names = "/".join(file.relative_to(base).parts)
    return next((name for name in ("taut-coordinator", "taut-relay") if name in names), "taut")


def contents(program, kind, binary, manuals, licences, stage):
    """Returns what is in a package, in nfpm's words."""
    found = [entry(binary, f"/usr/bin/{program.installed}", 0o755)]
    if program is targets.NODE:
        # The tiny node has no `taut wg`.
        found.append({"src": "taut", "dst": "/usr/bin/taut-wg", "type": "symlink"})
    system = SERVICES[kind]
    given = {path: (text, 0o644) for path, text in units(program).items()} if system == "systemd" else scripts_of_services(program, system)
    for path, (text, mode) in given.items():
        found.append(entry(write(stage, path, text), path, mode, is_setting=path.startswith(("/etc/config/", "/etc/conf.d/", "/etc/taut/"))))
    if kind == "ipk":
        # Flash is scarce: the licences of libraries are beside the packages, in licences-*.txt.
        return [*found, entry(SOURCE / "LICENSE", f"/usr/share/licenses/{program.name}/LICENSE")]
    found += pages(program, kind, manuals) + documents(program, stage)
    # rpm removes only folders that a package owns.
    found += [{"dst": f"/usr/share/{folder}/{program.name}", "type": "dir"} for folder in ("doc", *(() if kind == "deb" else ("licenses",)))]
    place = f"/usr/share/doc/{program.name}/copyright" if kind == "deb" else f"/usr/share/licenses/{program.name}/LICENSE"
    return [*found, entry(SOURCE / "LICENSE", place), entry(licences, f"/usr/share/doc/{program.name}/licences-of-libraries.txt")]


# Where zsh looks, by the kind of package: Debian's own place for packages, and that of zsh elsewhere.
ZSH = {"deb": "/usr/share/zsh/vendor-completions"}
ZSH_ELSEWHERE = "/usr/share/zsh/site-functions"


def pages(program, kind, manuals):
    """Manual pages and completions, which tools/manuals.py wrote."""
    names = {"taut", "taut-wg"} if program is targets.NODE else {program.name}
    places = {"bash": "/usr/share/bash-completion/completions", "zsh": ZSH.get(kind, ZSH_ELSEWHERE), "fish": "/usr/share/fish/vendor_completions.d"}
    found = []
    for file in sorted(manuals.rglob("*")):
        if not file.is_file() or re.sub(r"^_|\.(1|8|bash|fish)$", "", file.name) not in names:
            continue
        folder = file.parent.name
        place = places.get(folder, f"/usr/share/man/{folder}")
        found.append(entry(file, f"{place}/{file.name}"))
    return found


# A link of a page: its text, the path, and the place in that file.
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")


def documents(program, stage):
    """The users' pages with the node; examples with the coordinator."""
    place = f"/usr/share/doc/{program.name}"
    chosen = ["CHANGELOG.md"]
    if program is targets.NODE:
        chosen += sorted(f"docs/{file.name}" for file in (SOURCE / "docs").iterdir() if file.suffix in (".md", ".svg"))
    found = [entry(write(stage, f"{place}/{Path(page).name}", packaged(page, chosen)), f"{place}/{Path(page).name}") for page in chosen]
    if program is targets.COORDINATOR:
        for name in ("coordinator.toml", "grafana", "haproxy", "nginx", "prometheus"):
            source = SOURCE / "dist" / name
            each = [source] if source.is_file() else sorted(source.rglob("*"))
            found += [entry(file, f"{place}/examples/{file.relative_to(SOURCE / 'dist')}") for file in each if file.is_file()]
    return found


def packaged(page, pages):
    """Returns a page as it is in a package, where all pages are in one folder: a link to what is not among them names its place in the sources."""

    def follow(link):
        text, path, anchor = link[1], os.path.normpath(Path(page).parent / link[2]), link[3] or ""
        return f"[{text}]({Path(path).name}{anchor})" if path in pages else f"{text} (`{path}` in the sources of Taut)"

    return LINK.sub(follow, (SOURCE / page).read_text(encoding="utf-8"))


def entry(source, place, mode=0o644, is_setting=False):
    return {"src": str(source), "dst": place, "file_info": {"mode": mode, "owner": "root", "group": "root"}, **({"type": "config|noreplace"} if is_setting else {})}


def write(stage, path, text):
    file = stage / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    # nfpm copies the time of an apk's scripts into the package.
    date = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    os.utime(file, (date, date))
    return file


def scripts_folder():
    """Returns the folder of the scripts of packages."""
    return next(folder for folder in SCRIPTS if folder.is_dir())


def script(program, name, stage):
    """Returns the file of a script for this package: dist/packages with the package's names filled in."""
    text = (scripts_folder() / name).read_text(encoding="utf-8").replace("@PACKAGE@", program.name).replace("@SERVICE@", program.installed)
    there = {Path(path).name for path in units(program)}
    for key, value in UNITS[program.installed].items():
        text = text.replace(f"@{key}@", " ".join(unit for unit in value.split() if "*" in unit or unit in there))
    for key in ("remove", "purge"):
        own = scripts_folder() / f"{program.installed}.{key}"
        text = text.replace(f"@{key.upper()}@\n", own.read_text(encoding="utf-8").lstrip(" ") if own.exists() else "")
    # Loops over no unit, and presets of none, become nothing.
    text = re.sub(r"^for unit in ; do\n(.*\n)*?done\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)(for unit in ;|.*systemctl preset  ).*\n", r"\1:\n", text, flags=re.MULTILINE)
    return str(write(stage, name, text))


def scripts(program, kind, stage):
    """Returns the scripts of a package, in nfpm's words; none for a program without a service."""
    if program.installed not in UNITS:
        return {}
    if kind == "deb":
        return {"scripts": {stage_: script(program, f"deb.{name}", stage) for stage_, name in (("preinstall", "preinst"), ("postinstall", "postinst"), ("preremove", "prerm"), ("postremove", "postrm"))}}
    after, before = script(program, "postinstall", stage), script(program, "preremove", stage)
    own = {kind: {"scripts": {"postupgrade": after}}} if kind in ("apk", "archlinux") else {}
    return {"scripts": {"postinstall": after, "preremove": before}, **own}


def make(program, target, kind, version, found, stage, date, out):
    """Makes a package; returns its file."""
    architecture = getattr(target, kind)
    described = {
        "name": program.name,
        "arch": architecture,
        "platform": "linux",
        "version": version,
        "version_schema": "none",
        "release": "" if kind in ("deb", "ipk") else "1",
        "section": "net",
        "maintainer": "The Taut developers <taut@localhost>",
        "description": program.summary,
        "license": "Apache-2.0",
        "mtime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
        "contents": found,
        **scripts(program, kind, stage),
    }
    if kind == "deb" and program.installed in UNITS:
        described["depends"] = ["init-system-helpers"]
    others = [each.name for each in targets.PROGRAMS if each is not program and each.installed == program.installed and kind in each.kinds]
    if others:
        described["conflicts"] = others
    if program.instead_of:
        described["provides"] = described["replaces"] = [program.instead_of]
    # The name that each kind has for a processor is given, and not to be translated.
    described.setdefault(kind, {})["arch"] = architecture
    file = out / file_name(program, kind, version, architecture)
    description = write(stage, "nfpm.yaml", json.dumps(described, indent=1))
    subprocess.run(["nfpm", "package", "--config", description, "--packager", kind, "--target", file], check=True, stdout=subprocess.DEVNULL)
    return file
