"""What is kept on disk has an end, and what was written first goes."""

import hashlib
import os

from torpor import Context
from torpor.pipeline import disk

ENTRY = 10_000  # bytes


def names(count):
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]


def test_what_is_kept_on_disk_has_an_end(tmp_path):
    written = names(2000)
    with Context(CACHE_DIR=str(tmp_path), CACHE_MB=3):
        for number, name in enumerate(written):
            disk.write_body(disk.KERNELS, name, bytes(ENTRY))
            os.utime(tmp_path / disk.KERNELS / name, ns=(0, number))
        found = [name for name in written if disk.read_body(disk.KERNELS, name)]
    assert 250 * ENTRY < len(found) * ENTRY < 10 * 10**6
    assert found == written[-len(found) :]


def test_other_kinds_of_entries_are_left_alone(tmp_path):
    with Context(CACHE_DIR=str(tmp_path), CACHE_MB=3):
        disk.write_body(disk.SCHEDULES, "of old", bytes(ENTRY))
        for name in names(600):
            disk.write_body(disk.KERNELS, name, bytes(ENTRY))
        assert disk.read_body(disk.SCHEDULES, "of old") == bytes(ENTRY)
