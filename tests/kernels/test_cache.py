"""The cache on disk: what comes back is what was put in, or nothing."""

import os
import pwd
import subprocess
import sys

import numpy as np
import pytest

import xferlib as xl
from xferlib.kernels import code_cache as cache
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


def _belong_to_another(monkeypatch, path):
    own, others = os.fstat, path.stat().st_ino

    def fstat(descriptor):
        found = own(descriptor)
        return os.stat_result((*found[:4], os.getuid() + 1, *found[5:10])) if found.st_ino == others else found

    monkeypatch.setattr(os, "fstat", fstat)


@pytest.mark.parametrize(
    ("is_above", "spoil", "words"),
    [
        (False, lambda _, path: path.chmod(0o777), "chmod 700"),
        (False, lambda patch, path: patch.setattr(os, "getuid", lambda: path.stat().st_uid + 1), "belongs to user"),
        (True, lambda _, path: path.chmod(0o777), "above the cache, can be written by others"),
        (True, _belong_to_another, f"above the cache, belongs to user {os.getuid() + 1}"),
    ],
)
def test_a_directory_that_another_may_change_is_not_used(folder, monkeypatch, is_above, spoil, words):
    cache.write("a", b"machine code")
    spoil(monkeypatch, folder.parent if is_above else folder)
    assert cache.read("a") is None
    assert words in cache.info().problem
    assert words in cache.clear().problem


def test_a_directory_below_one_like_tmp_is_used(folder):
    cache.write("a", b"machine code")
    folder.parent.chmod(0o1777)  # where each removes and renames what is his own
    assert cache.read("a") == b"machine code"


def test_machine_code_of_another_kernel_is_not_taken(folder):
    cache.write("a", b"machine code")
    cache.write("b", b"other code")
    (folder / "b.kernel").replace(folder / "a.kernel")
    assert cache.read("a") is None


def test_a_file_of_another_kind_is_as_good_as_none(folder):
    cache.write("a", b"machine code")
    (folder / "a.kernel").rename(folder / "real")
    (folder / "a.kernel").symlink_to(folder / "real")
    os.mkfifo(folder / "b.kernel")
    (folder / "c.kernel").mkdir()
    assert [cache.read(name) for name in "abc"] == [None] * 3
    cache.write("d", b"d")
    (folder / "d.kernel").chmod(0o666)
    assert cache.read("d") is None


def test_a_directory_that_is_exchanged_while_it_is_read(folder, monkeypatch):
    """The folder that was checked is read: another one of that name comes too late."""
    cache.write("a", b"machine code")
    opened = os.open

    def open_later(path, *args, **options):
        if str(path).endswith("a.kernel"):
            folder.rename(folder.with_name("away"))
            folder.mkdir(mode=0o777)
            (folder / "a.kernel").write_bytes((folder.with_name("away") / "a.kernel").read_bytes()[:-4] + b"evil")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", open_later)
    assert cache.read("a") == b"machine code"


def test_links_on_the_way_are_followed(folder, tmp_path):
    cache.write("a", b"machine code")
    (tmp_path / "link").symlink_to(folder.parent)
    with configured(cache_dir=tmp_path / "link"):
        assert cache.read("a") == b"machine code"


@pytest.mark.parametrize("place", ["~/.cache/xferlib", "~nobody-of-this-name/cache"])
def test_a_user_without_a_home_has_no_cache(tmp_path, monkeypatch, place):
    def unknown(*args):
        raise KeyError(args)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("getpwuid", "getpwnam"):
        monkeypatch.setattr(pwd, name, unknown)
    with configured(cache_dir=place):
        assert "no home directory; set XFERLIB_CACHE_DIR" in cache.info().problem
        cache.write("a", b"machine code")
        assert cache.read("a") is None
        assert cache.clear().files == 0
        with xl.use_backend("sim"):
            assert xl.explain(np.zeros(9)).expected_ms is None
    assert not list(tmp_path.iterdir())


def test_a_disk_that_cannot_be_written_is_no_error(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the directory should be")
    cache.write("a", b"machine code")
    assert cache.read("a") is None


WRITER = """
import sys
from pathlib import Path
import xferlib as xl
from xferlib.kernels import code_cache as cache
xl.configure(cache_dir=Path(sys.argv[1]))
for turn in range(20):
    payload = f"payload {turn % 5}".encode() * 1000
    cache.write(f"k{turn % 5}", payload)
    assert cache.read(f"k{turn % 5}") == payload
"""


def test_many_processes(folder):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder.parent)]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert cache.info().files == 5
    assert not list(folder.glob(".*.tmp"))
