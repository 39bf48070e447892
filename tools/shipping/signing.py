"""The signature over the list of checksums. `openssl`, which is on nearly every host, makes and checks it, without a network.

The key is a file in PEM, named by TAUT_SIGNING_KEY. Without one, a key for packages of this machine alone is made below target/; nobody should trust it elsewhere.
"""

import os
import subprocess
from pathlib import Path

from . import root

SUMS, SIGNATURE, PUBLIC = "SHA256SUMS", "SHA256SUMS.sig", "taut-packages.pub"
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
    """Signs the checksums in a folder, and puts the public key beside them."""
    private = key()
    openssl("pkey", "-in", private, "-pubout", "-out", folder / PUBLIC)
    openssl("pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", folder / SUMS, "-out", folder / SIGNATURE)


def check(folder, public):
    """Returns true if the checksums in a folder have a signature of this public key, and all files have their checksums."""
    words = ["pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", folder / SUMS, "-sigfile", folder / SIGNATURE]
    if subprocess.run(["openssl", *map(str, words)], capture_output=True, check=False).returncode:
        return False
    return subprocess.run(["sha256sum", "--quiet", "--check", SUMS], cwd=folder, capture_output=True, check=False).returncode == 0
