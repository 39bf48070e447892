"""Power cuts of a coordinator with SQLite: lab/runs/power_cut."""

import os
import random

import pytest

from lab.runs.power_cut import trace
from lab.runs.power_cut.disk import Disk
from lab.runs.power_cut.run import cut

FOLDER = "/state"


@pytest.fixture
def follow(tmp_path):
    """Returns a function that has a disk follow the lines of a trace; a line begins with the number of its thread, by default 1."""

    def followed(disk, *lines):
        path = tmp_path / "trace"
        path.write_text("\n".join(line if line[0].isdigit() else f"1 {line}" for line in lines))
        for event in trace.read(path):
            disk.apply(event)

    return followed


def quoted(text):
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def images(disk, count=200):
    return [disk.image(random.Random(seed)) for seed in range(count)]


def opened(name, fd):
    return f"openat(AT_FDCWD, {quoted(f'{FOLDER}/{name}')}, O_RDWR|O_CREAT, 0600) = {fd}"


def test_what_was_synced_is_in_each_image_and_the_rest_in_some(follow):
    disk = Disk(FOLDER, {"old": b"." * 1024})
    follow(disk, opened("old", 3), f"pwrite64(3, {quoted('a' * 512)}, 512, 0) = 512", "fsync(3) = 0", f"pwrite64(3, {quoted('b' * 512)}, 512, 512) = 512")
    seen = {image["old"] for image in images(disk)}
    assert seen == {b"a" * 512 + b"." * 512, b"a" * 512 + b"b" * 512}


def test_a_write_is_torn_between_sectors_and_never_within_one(follow):
    disk = Disk(FOLDER, {"old": b"." * 2048})
    follow(disk, opened("old", 3), f"pwrite64(3, {quoted('b' * 1024)}, 1024, 512) = 1024")
    seen = {image["old"] for image in images(disk)}
    assert b"." * 512 + b"b" * 512 + b"." * 1024 in seen and b"." * 1024 + b"b" * 512 + b"." * 512 in seen
    assert all(len(set(one[begin : begin + 512])) == 1 for one in seen for begin in range(0, 2048, 512))


def test_what_was_written_during_a_sync_may_be_missing(follow):
    disk = Disk(FOLDER, {"old": b"." * 1024})
    written = f"2 pwrite64(3, {quoted('b' * 512)}, 512, 0) = 512"
    follow(disk, opened("old", 3), "fsync(3 <unfinished ...>", written, "<... fsync resumed>) = 0")
    assert {image["old"] for image in images(disk)} == {b"." * 1024, b"b" * 512 + b"." * 512}


def test_names_are_there_after_the_directory_was_synced(follow):
    disk = Disk(FOLDER, {"old": b"x"})
    follow(disk, opened("new", 3), f"pwrite64(3, {quoted('y')}, 1, 0) = 1", "fsync(3) = 0", f"unlink({quoted(FOLDER + '/old')}) = 0")
    seen = {tuple(sorted(image)) for image in images(disk)}
    assert seen == {("old",), ("new", "old"), (), ("new",)}
    follow(disk, f"openat(AT_FDCWD, {quoted(FOLDER)}, O_RDONLY) = 4", "fsync(4) = 0")
    assert images(disk) == [{"new": b"y"}] * 200


@pytest.mark.programs
@pytest.mark.parametrize("count", [150, 10_000])
def test_fault_o2_l1_every_acknowledged_write_survives_a_power_cut(count):
    """The run begins with the upgrade of a released database, so that cuts within it are among them."""
    if not trace.works():
        pytest.skip("strace is missing, or may not trace here (tools/setup test)")
    seed = int(os.environ.get("TAUT_SEED", int.from_bytes(os.urandom(4))))
    result = cut(count, seed)
    assert result.lost == [], f"TAUT_SEED={seed}"
    assert (result.images, result.started) == (count, count // 20)
    assert result.changes > 500 and result.written_back > 30
