"""What a program consists of: its list of components (CycloneDX 1.5), and the licences of the libraries in it. Runs in the root (assemble.py)."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

from .programs import features

SOURCE, VENDOR = Path("/src"), Path("/vendor")
# Files in which a library states its licence.
LICENCE_FILES = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE)", re.IGNORECASE)


def components(program, target):
    """Returns the libraries in a program on a target: [(name, version, licence, checksum)], ours without a checksum."""
    words = ["cargo", "tree", "--locked", "--offline", "--package", program.crate, *features(program), "--target", target.rust, "--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]
    listed = subprocess.run(words, cwd=SOURCE, check=True, capture_output=True, text=True).stdout
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in tomllib.loads((SOURCE / "Cargo.lock").read_text())["package"]}
    found = set()
    for line in listed.splitlines():
        package, licence = line.split("|")
        name, version = re.match(r"(\S+) v(\S+)", package).groups()
        if name != program.crate:
            found.add((name, version, licence, checksums[name, version]))
    return sorted(found, key=lambda each: each[:2])


def document(program, target, version, found):
    """Returns the list of components as CycloneDX. It has no time and no random number, so that two builds write the same."""
    itself = {"type": "application", "bom-ref": program.name, "name": program.name, "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    listed = []
    for name, number, licence, checksum in found:
        url = f"pkg:cargo/{name}@{number}"
        each = {"type": "library", "bom-ref": url, "name": name, "version": number, "purl": url}
        if licence:
            # Older crates write a slash where SPDX has OR.
            each["licenses"] = [{"expression": licence.replace("/", " OR ")}]
        if checksum:
            each["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        listed.append(each)
    rust = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    listed.append({"type": "library", "bom-ref": "rust-std", "name": "rust-std", "version": rust, "licenses": [{"expression": "MIT OR Apache-2.0"}]})
    properties = [{"name": "taut:target", "value": target.rust}]
    metadata = {"component": itself, "properties": properties}
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": metadata, "components": listed}, indent=1) + "\n"


def licences(found):
    """Returns the text of the licences of the libraries, each text once, with the libraries that it belongs to."""
    texts = {}
    for name, version, licence, checksum in found:
        folder = VENDOR / f"{name}-{version}"
        for file in sorted(folder.iterdir()) if checksum else []:
            if file.is_file() and LICENCE_FILES.match(file.name):
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                texts.setdefault(text, []).append(f"{name} {version} ({licence or 'see the text'}), {file.name}")
    parts = ["Licences of the libraries in this program.\n"]
    for text, owners in sorted(texts.items(), key=lambda each: each[1]):
        parts.append("=" * 80 + "\n" + "\n".join(owners) + "\n\n" + text + "\n")
    return "\n".join(parts)
