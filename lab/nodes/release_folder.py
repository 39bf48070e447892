"""A folder of releases as `make packages` leaves it, with programs that a test makes, and a web server for it."""

import functools
import hashlib
import http.server
import platform
import subprocess
import threading
from pathlib import Path

ARCHITECTURE = {"x86_64": "x86-64", "aarch64": "aarch64"}.get(platform.machine(), platform.machine())


class ReleaseFolder:
    """A folder with a list, its signature and programs. `key` is the file of the public key."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self._private = self.folder.parent / "release.pem"
        self.key = self.folder.parent / "release.pub"
        self.make_key()

    def make_key(self):
        """Makes a pair of keys, in place of the former ones."""
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self._private], check=True)
        subprocess.run(["openssl", "pkey", "-in", self._private, "-pubout", "-out", self.key], check=True)

    def publish(self, version, program, made=1_790_000_000, **wrong):
        """Publishes a release with this content of the program `taut`; `wrong` has fields of its line that are not true."""
        file = f"taut_{version}_{ARCHITECTURE}"
        (self.folder / file).write_bytes(program)
        line = {"bytes": len(program), "sha256": hashlib.sha256(program).hexdigest(), "architecture": ARCHITECTURE, **wrong}
        text = f"taut-release 1\nversion {version}\nmade {made}\nprogram taut {line['architecture']} {line['bytes']} {line['sha256']} {file}\n"
        (self.folder / "RELEASE").write_text(text)
        words = ["openssl", "pkeyutl", "-sign", "-inkey", self._private, "-rawin", "-in", self.folder / "RELEASE", "-out", self.folder / "RELEASE.sig"]
        subprocess.run(words, check=True)
        return self.folder / file


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files; `cut` is the number of bytes after which it ends the connection, although it promised the whole file."""

    cut = None

    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        outputfile.write(source.read() if self.cut is None else source.read(self.cut))


class WebServer:
    """A web server for a folder, on an address of this machine, until the end of the `with` block."""

    def __init__(self, folder, cut=None):
        handler = type("Handler", (_Quiet,), {"cut": cut})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
