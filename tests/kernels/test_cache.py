"""The cache on disk: what comes back is what was put in, or nothing."""

import os
import subprocess
import sys

import pytest

from xferlib.kernels.engines.cuda import cache
from xferlib.testing import configured


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with configured(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache" / "kernels"


def test_round_trip_and_clear(folder):
    assert cache.read("a") is None
    cache.write("a", b"machine code")
    assert cache.read("a") == b"machine code"
    assert cache.info().files == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache.clear().files == 1
    assert cache.read("a") is None


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c + b"x", lambda c: b"", lambda c: c[:-1] + b"?"])
def test_damaged_file_is_as_good_as_none(folder, damage):
    cache.write("a", b"machine code")
    path = folder / "a.kernel"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("a") is None


def test_key_depends_on_every_part_and_on_where_parts_end():
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "d"), ("ab", "c", "")]
    assert len({cache.key(*each) for each in parts}) == 5


def test_a_directory_that_others_may_write_to_is_not_used(folder):
    cache.write("a", b"machine code")
    folder.chmod(0o777)
    assert cache.read("a") is None
    assert "chmod 700" in cache.info().problem
    assert "chmod 700" in cache.clear().problem


def test_a_directory_of_another_user_is_not_used(folder, monkeypatch):
    cache.write("a", b"machine code")
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert cache.read("a") is None
    assert "belongs to user" in cache.info().problem


def test_a_disk_that_cannot_be_written_is_no_error(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the directory should be")
    cache.write("a", b"machine code")
    assert cache.read("a") is None


WRITER = """
import sys
from pathlib import Path
import xferlib as xl
from xferlib.kernels.engines.cuda import cache
xl.configure(cache_dir=Path(sys.argv[1]))
for turn in range(50):
    payload = f"payload {turn % 5}".encode() * 1000
    cache.write(f"k{turn % 5}", payload)
    assert cache.read(f"k{turn % 5}") == payload
"""


def test_many_processes(folder):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder.parent)]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert cache.info().files == 5
    assert not list(folder.glob(".*.tmp"))
