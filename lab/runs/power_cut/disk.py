"""A disk as a power cut leaves it: what was synced, and any part of what was not."""

from pathlib import PurePath

# Sizes of the pieces in which a disk writes, in bytes: each is written wholly or not at all.
SECTORS = (512, 4096)
# Shares of the images in which nothing that was not synced is on the disk, or all of it; in the others it is a random part.
NOTHING, EVERYTHING = 0.3, 0.1


class File:
    """A file: its bytes on the disk, and the changes since, oldest first: (offset, bytes), or (size, None) for a cut to that size."""

    def __init__(self, content=b""):
        self.synced = bytearray(content)
        self.pending = []
        self.writes = 0


class Disk:
    """The files of one directory, as one process after the other changes them."""

    def __init__(self, directory, files):
        self.directory = PurePath(directory)
        self.names = {name: File(content) for name, content in files.items()}
        # Changes of names since the directory was synced: (name, file or None).
        self.renamed = []
        self._durable_names = dict(self.names)
        self._open = {}
        self._syncing = {}

    def start(self):
        """A new process has no open files."""
        self._open.clear()
        self._syncing.clear()

    def apply(self, event):
        """Follows one event. Returns true if it may have changed what a power cut leaves."""
        handler = getattr(self, f"_{event.call}", None)
        return bool(handler and handler(event))

    def image(self, random):
        """Returns {name: bytes}: the files after a power cut now."""
        share = random.random()
        kept = 0.0 if share < NOTHING else 1.0 if share < NOTHING + EVERYTHING else random.random()
        names = dict(self._durable_names)
        for name, file in self.renamed:
            if random.random() < kept:
                names[name] = file
        sector = random.choice(SECTORS)
        return {name: _content(file, kept, sector, random) for name, file in names.items() if file}

    def _name(self, text):
        path = PurePath(text.decode())
        return path.name if path.parent == self.directory else None

    def _openat(self, event):
        if not event.end or event.result is None or event.result < 0:
            return False
        if PurePath(event.texts[0].decode()) == self.directory:
            self._open[event.result] = self
            return False
        name = self._name(event.texts[0])
        if name is None:
            self._open.pop(event.result, None)
            return False
        if name not in self.names:
            self._give_name(name, File())
        self._open[event.result] = self.names[name]
        if "O_TRUNC" in event.flags:
            self.names[name].pending.append((0, None))
        return True

    def _close(self, event):
        if event.begin:
            self._open.pop(event.fd, None)

    def _file(self, event):
        file = self._open.get(event.fd)
        return file if isinstance(file, File) else None

    def _pwrite64(self, event):
        file = self._file(event)
        if file is None:
            return False
        if event.end and event.result != len(event.texts[0]):
            raise ValueError(f"a write of {len(event.texts[0])} bytes ended with {event.result}")
        if event.begin:
            file.writes += 1
            file.pending.append((event.numbers[-1], event.texts[0]))
        return event.begin

    def _write(self, event):
        if self._file(event) is not None:
            # SQLite does not; the files of tokens are of no interest here.
            self._file(event).pending.append((len(_whole(self._file(event))), event.texts[0]))
        return False

    def _other(self, event):
        if self._file(event) is not None:
            raise ValueError(f"{event.call} on a file of the database is not modelled")

    _pwritev = _pwritev2 = _writev = _fallocate = _sync_file_range = _other

    def _ftruncate(self, event):
        file = self._file(event)
        if file is not None and event.begin:
            file.pending.append((event.numbers[-1], None))
        return file is not None

    def _fsync(self, event):
        synced = self._open.get(event.fd)
        if synced is None:
            return False
        if event.begin:
            # What is written while the call runs need not be on the disk afterwards.
            self._syncing[event.fd] = len(self.renamed if synced is self else synced.pending)
        if event.end:
            if event.result != 0:
                raise ValueError(f"{event.call} failed")
            self._synced(synced, self._syncing.pop(event.fd))
        return True

    _fdatasync = _fsync

    def _synced(self, synced, count):
        if synced is self:
            for name, file in self.renamed[:count]:
                self._durable_names[name] = file
            del self.renamed[:count]
            return
        for change in synced.pending[:count]:
            _change(synced.synced, *change)
        del synced.pending[:count]

    def _unlink(self, event):
        name = self._name(event.texts[0])
        if event.begin and name in self.names:
            self._give_name(name, None)
        return name is not None

    def _rename(self, event):
        old, new = map(self._name, event.texts)
        if event.begin and old and new:
            file = self.names[old]
            self._give_name(old, None)
            self._give_name(new, file)
        return bool(old and new)

    def _give_name(self, name, file):
        """Makes `name` the name of `file`, or of nothing."""
        self.renamed.append((name, file))
        if file is None:
            self.names.pop(name, None)
        else:
            self.names[name] = file


def _change(content, offset, written):
    """Changes bytes as a write or a cut does."""
    if written is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(written)] = written


def _whole(file):
    content = bytearray(file.synced)
    for change in file.pending:
        _change(content, *change)
    return content


def _content(file, kept, sector, random):
    """Returns the bytes of a file with a part of its pending changes, sector by sector."""
    content = bytearray(file.synced)
    for offset, written in file.pending:
        if written is None:
            if random.random() < kept:
                _change(content, offset, None)
            continue
        begin = 0
        while begin < len(written):
            end = min(len(written), begin + sector - (offset + begin) % sector)
            if random.random() < kept:
                _change(content, offset + begin, written[begin:end])
            begin = end
    return bytes(content)
