"""Images of containers from scratch, as a layout of files (OCI image layout 1.0), one for each program with all its processors. Runs in the root (assemble.py).

Nothing but Python is needed to make one. podman, buildah and skopeo read it, `podman pull oci-archive:FILE`, and so does docker, `docker load -i FILE`, which needs a list of
its own.
"""

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# Arguments of a program that is started without any.
COMMANDS = {"taut": ["daemon"], "taut-relay": ["serve", "--key", "/var/lib/taut-relay/key"], "taut-coordinator": ["serve", "--state", "/var/lib/taut-coordinator"]}


class Layout:
    """The files of an image, by their paths in the layout."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def add(self, kind, content, **more):
        """Adds a blob; returns its descriptor."""
        described = {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content), **more}
        self.files[blob(described)] = content
        return described


def blob(described):
    """Returns the path of a blob in a layout."""
    return f"blobs/{described['digest'].replace(':', '/')}"


def json_bytes(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def archive(files, date):
    """Returns a tar with these files and folders: {path: (content or None for a folder or a link's target, mode)}, the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, (content, mode) in files.items():
            member = tarfile.TarInfo(path)
            member.mtime, member.mode = date, mode
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def layer(program, binary, date):
    """Returns the files of a container: the program, and the folders that it writes to."""
    folder = {path: (None, 0o755) for path in ("etc", "run", "tmp", "usr", "usr/bin", "var", "var/lib")}
    folder["tmp"] = (None, 0o1777)
    folder[f"var/lib/{program.name}"] = (None, 0o700)
    files = {f"usr/bin/{program.name}": (binary.read_bytes(), 0o755), "var/run": ("/run", 0o777)}
    if program.name == "taut":
        files["usr/bin/taut-wg"] = ("taut", 0o777)
        # For `taut daemon --tun userspace`.
        helper = binary.with_name("taut-userspace")
        if helper.exists():
            files["usr/bin/taut-userspace"] = (helper.read_bytes(), 0o755)
    return archive(dict(sorted((folder | files).items())), date)


def add_image(layout, program, target, binary, version, date):
    """Adds the image for one processor; returns its descriptor."""
    tar = layer(program, binary, date)
    packed = layout.add(LAYER, gzip.compress(tar, 9, mtime=0))
    architecture, _, variant = target.oci.partition("/")
    platform = {"architecture": architecture, "os": "linux", **({"variant": variant} if variant else {})}
    created = datetime.fromtimestamp(date, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"org.opencontainers.image.title": program.name, "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}
    config = {
        **platform,
        "created": created,
        "config": {"Entrypoint": [f"/usr/bin/{program.name}"], "Cmd": COMMANDS[program.name], "Env": ["PATH=/usr/bin"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
        "history": [{"created": created, "created_by": f"{program.name} {version}"}],
    }
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": layout.add(CONFIG, json_bytes(config)), "layers": [packed]}
    return layout.add(MANIFEST, json_bytes(manifest), platform=platform)


def for_docker(layout, program, manifests, version):
    """Returns the list of images that docker reads from an archive, in place of the index: each processor's has a tag of its own, such as taut:0.2.0-amd64."""
    listed = []
    for described in manifests:
        manifest, platform = json.loads(layout.files[blob(described)]), described["platform"]
        tag = f"{program.name}:{version}-{platform['architecture']}{platform.get('variant', '')}"
        listed.append({"Config": blob(manifest["config"]), "RepoTags": [tag], "Layers": [blob(each) for each in manifest["layers"]]})
    return json_bytes(listed)


def make(program, binaries, version, date, out):
    """Makes the image of a program for all processors: [(target, path of the program)]. Returns its file."""
    layout = Layout()
    manifests = [add_image(layout, program, target, binary, version, date) for target, binary in binaries if target.oci]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    whole = layout.add(INDEX, json_bytes(index), annotations={"org.opencontainers.image.ref.name": f"{program.name}:{version}"})
    layout.files["index.json"] = json_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": [whole]})
    layout.files["manifest.json"] = for_docker(layout, program, manifests, version)
    file = out / f"{program.name}_{version}.oci.tar"
    file.write_bytes(archive({path: (content, 0o644) for path, content in sorted(layout.files.items())}, date))
    return file
