"""The signatures over the checksums and over the list of the release. `openssl`, which is on nearly every host, makes and checks it, without a network.

The key is a file in PEM, named by TAUT_SIGNING_KEY. Without one, a key for packages of this machine alone is made below target/; nobody should trust it elsewhere.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from . import root

SUMS, PUBLIC = "SHA256SUMS", "taut-packages.pub"
# The list that `taut update` reads. It is signed by itself, because that program reads nothing else; its first line tells it from checksums.
RELEASE = "RELEASE"
SIGNED = (SUMS, RELEASE)
# Matches the names of packages, images and programs: files that a command such as `apt install ./taut_*_amd64.deb` would take. Lists of components (`.cdx.json`) are not installed.
PACKAGE = re.compile(r"taut(-[a-z]+)?_(?!.*\.cdx\.json$)")


def signature(name):
    """Returns the name of the signature over a file."""
    return f"{name}.sig"


LOCAL_KEY = root.ROOT / "target" / "packages-key.pem"


def key():
    """Returns the file of the private key."""
    given = os.environ.get("TAUT_SIGNING_KEY")
    if given:
        if not Path(given).is_file():
            raise root.Failed(f"TAUT_SIGNING_KEY: there is no file {given}", "name a file that `openssl genpkey -algorithm ed25519` wrote")
        return Path(given)
    if not LOCAL_KEY.exists():
        root.say(f"making a signing key for packages of this machine: {root.shown(LOCAL_KEY)}")
        with open(LOCAL_KEY, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], stdout=file, check=True)
    return LOCAL_KEY


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def sign(folder):
    """Signs the checksums and the list in a folder, and puts the public key beside them."""
    private = key()
    openssl("pkey", "-in", private, "-pubout", "-out", folder / PUBLIC)
    for name in SIGNED:
        openssl("pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", folder / name, "-out", folder / signature(name))


class Checked(NamedTuple):
    """What a check found, all of it names of files."""

    right: list[str]
    # Listed, and not in the folder: a host needs one package of a release.
    absent: list[str]
    # In the folder, and in no list.
    unlisted: list[str]


def check(folder, public):
    """Checks the files of a folder by its lists, which have to be signed by this public key. Fails if a signature or a checksum is wrong, or if a package was not checked."""
    sums = read_sums(folder, public)
    there = sorted(file.name for file in folder.iterdir() if file.is_file())
    right, damaged = [], []
    for name in (name for name in sums if name in there):
        (right if digest(folder / name) == sums[name] else damaged).append(name)
    if damaged:
        raise root.Failed(f"the checksum of {', '.join(damaged)} is not the one in {SUMS}", f"the download is damaged, or somebody changed it: fetch {'it' if len(damaged) == 1 else 'them'} again, and use nothing of this folder until this check passes")
    if RELEASE in there and signature(RELEASE) in there:
        verify(folder, RELEASE, public)
        right += [] if RELEASE in right else [RELEASE]
    own = {SUMS, PUBLIC, *map(signature, SIGNED)}
    unlisted = [name for name in there if name not in own and name not in right and not (folder / name).samefile(public)]
    packages = [name for name in unlisted if PACKAGE.match(name)]
    if packages:
        raise root.Failed(f"{', '.join(packages)}: named as a package, and {SUMS} does not list it", f"move it out of {folder}: a command such as `apt install ./taut_*` would take it, unchecked")
    if not any(PACKAGE.match(name) for name in right):
        raise root.Failed(f"{folder} has no package that {SUMS} lists", "fetch a package into this folder, then check again")
    return Checked(right, sorted(set(sums) - set(there)), unlisted)


def read_sums(folder, public):
    """Returns the checksums by names of files, after the check of their signature."""
    if not folder.is_dir():
        raise root.Failed(f"there is no folder {folder}", f"name the folder that has the packages and {SUMS}")
    if not (folder / SUMS).is_file():
        raise root.Failed(f"{folder} has no {SUMS}", f"fetch {SUMS} and {signature(SUMS)} from where the packages are from")
    if not public.is_file():
        raise root.Failed(f"there is no key {public}", "name the public key of the release with --key FILE")
    if not shutil.which("openssl"):
        raise root.Failed("openssl is missing", "apt-get install openssl")
    if not succeeds("pkey", "-pubin", "-in", public, "-noout"):
        raise root.Failed(f"{public} is not a public key", f"name a file like {PUBLIC}, which begins with `-----BEGIN PUBLIC KEY-----`")
    verify(folder, SUMS, public)
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"([0-9a-f]{64}) [ *](\S+)", line) for line in lines]
    if not all(found):
        raise root.Failed(f"{folder / SUMS}, line {found.index(None) + 1}: expected a checksum and the name of a file", "the signature is right, so the release was made wrong: ask its maker for another one")
    return {line[2]: line[1] for line in found}


def verify(folder, name, public):
    """Fails unless a file has a signature of this public key."""
    signed = folder / signature(name)
    if not signed.is_file():
        raise root.Failed(f"{folder} has no {signed.name}, the signature of {name}", f"fetch it from where {name} is from; without it, nothing shows who made these files")
    if not succeeds("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", folder / name, "-sigfile", signed):
        raise root.Failed(f"{signed.name} is not a signature of {name} by the key {public}", f"{name} was changed, or signed with another key: use no file of this folder until you know which")


def succeeds(*words):
    """Returns true if openssl does what it is asked."""
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, check=False).returncode == 0


def digest(file):
    """Returns the SHA-256 of a file."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise root.Failed(f"{file} cannot be read: {error.strerror}", "check as a user who may read it") from None
