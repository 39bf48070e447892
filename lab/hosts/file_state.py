"""Files of a host, one line each, for comparison before and after (a plain program that runs on the host).

    file_state.py DIRECTORY...

A line has the path, kind, mode and owner; of a regular file also size, time of change and, up to 64 KiB, a digest of its bytes; of a link its target. Other file systems below a directory are left
out.
"""

import contextlib
import hashlib
import os
import stat
import sys

# Settings are smaller. Of larger files, such as databases of packages, size and time of change tell enough.
DIGESTED = 64 << 10
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "fifo",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def describe(path):
    """Returns the line of a path."""
    about = os.lstat(path)
    words = [path, _KINDS[stat.S_IFMT(about.st_mode)], f"{stat.S_IMODE(about.st_mode):o}", f"{about.st_uid}:{about.st_gid}"]
    if stat.S_ISLNK(about.st_mode):
        words.append(os.readlink(path))
    if stat.S_ISREG(about.st_mode):
        words += [str(about.st_size), str(about.st_mtime_ns)]
    if stat.S_ISREG(about.st_mode) and about.st_size <= DIGESTED:
        with open(path, "rb") as file:
            words.append(hashlib.sha256(file.read()).hexdigest()[:16])
    return " ".join(words)


def below(directory):
    """Yields the paths below a directory, and the directory itself."""
    yield directory
    device = os.lstat(directory).st_dev
    for parent, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if _is_on(device, parent, name)]
        yield from (os.path.join(parent, name) for name in (*directories, *files) if _is_on(device, parent, name))


def _is_on(device, parent, name):
    """Returns true if this entry of a directory is on the file system with this device number."""
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(os.path.join(parent, name)).st_dev == device
    return False


if __name__ == "__main__":
    for place in sys.argv[1:]:
        for one in below(place):
            # A program of the host may remove a file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                print("file", describe(one))
