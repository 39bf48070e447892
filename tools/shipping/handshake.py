"""Shows that a program for another processor works: two nodes run under qemu, shake hands and ping each other."""

import subprocess

from . import programs, root, targets

SCRIPT = root.ROOT / "tools" / "shipping" / "handshake.sh"
# Bytes of an ELF header that tell a processor's programs: e_ident but for the ABI, e_type (executable or position independent), e_machine, and 0 where any value is right.
ELF_BYTES = 20


def registration(binary, emulator):
    """Returns the line for binfmt_misc (Documentation/admin-guide/binfmt-misc.rst) that has programs such as this one run by qemu. F: the emulator is opened now; P: it gets the program's name, too."""
    magic = bytearray(binary.read_bytes()[:ELF_BYTES])
    mask = bytearray(b"\xff" * ELF_BYTES)
    mask[7:16] = bytes(9)
    # Executable (2) and position independent (3) differ in one bit, at the end of the number that the byte order says.
    mask[16 if magic[5] == 1 else 17] = 0xFE
    magic[7:16] = bytes(9)
    escaped = ["".join(f"\\x{byte:02x}" for byte in part) for part in (magic, mask)]
    return f":taut:M::{escaped[0]}:{escaped[1]}:{emulator}:FP"


def run(target):
    """Runs the handshake of a target; returns its exit status."""
    binary = programs.binary(target, targets.NODE)
    if not binary.exists():
        raise root.Failed(f"{target.name}: its program is not built", f"make packages TARGETS={target.name}")
    emulated = target is not programs.own()
    words = ["sh", "/tools/shipping/handshake.sh", root.inside(binary), registration(binary, f"/usr/bin/{target.qemu}") if emulated else "-"]
    alone = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    folders = {**root.INSIDE, "/tools": root.ROOT / "tools"}
    done = subprocess.run(root.command(*alone, *words, folders=folders), check=False)
    if done.returncode == 0:
        root.say(f"{target.name}: two nodes shook hands{' under ' + target.qemu if emulated else ''}")
    return done.returncode
