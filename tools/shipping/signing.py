"""The signatures over the checksums and over the list of the release. `openssl`, which is on nearly every host, makes and checks it, without a network.

The key is a file in PEM, named by TAUT_SIGNING_KEY. Without one, a key for packages of this machine alone is made below target/; nobody should trust it elsewhere.
"""

import os
import subprocess
from pathlib import Path

from . import root

SUMS, PUBLIC = "SHA256SUMS", "taut-packages.pub"
# The list that `taut update` reads. It is signed by itself, because that program reads nothing else; its first line tells it from checksums.
RELEASE = "RELEASE"
SIGNED = (SUMS, RELEASE)


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


def check(folder, public):
    """Returns true if checksums and list in a folder have a signature of this public key, and all files have their checksums."""
    for name in SIGNED:
        words = ["pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", folder / name, "-sigfile", folder / signature(name)]
        if subprocess.run(["openssl", *map(str, words)], capture_output=True, check=False).returncode:
            return False
    return subprocess.run(["sha256sum", "--quiet", "--check", SUMS], cwd=folder, capture_output=True, check=False).returncode == 0
