"""The folder of the user's own files below ``XFERLIB_CACHE_DIR``: compiled kernels, and what was measured.

Machine code of another user would run with this user's rights. A check of a path and a later use of it may meet two
folders, where another user may rename one on the way. So a folder is opened once, from the root, each part in the one
before it; what is open is checked, and files are opened, made and renamed in what is open.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from xferlib._runtime import process

_HAS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "getuid")
"""Whether the system opens files in an open folder and has users, as all but Windows."""
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


_PASSING = getattr(os, "O_PATH", os.O_RDONLY)
"""To open a folder on the way, which the user need not be able to list."""


class NotUsedError(Exception):
    """The folder is not used; the message says why, and what to do."""


def path(*parts: str) -> Path:
    """The folder's path, for messages; it begins with ``~`` where the user has no home directory."""
    return Path(os.path.expanduser(process.get().cache_dir), *parts)  # noqa: PTH111 - Path's own raises without a home


class Folder:
    """An open folder that belongs to the user alone."""

    def __init__(self, place: Path, descriptor: int | None) -> None:
        self._place = place
        self._descriptor = descriptor
        self._of = {} if descriptor is None else {"dir_fd": descriptor}

    def _at(self, name: str) -> str:
        return str(self._place / name) if self._descriptor is None else name

    def read(self, name: str, most: int) -> bytes | None:
        """The content of a file; None if there is none of at most ``most`` bytes that the user alone may write."""
        try:
            file = os.open(self._at(name), os.O_RDONLY | _FILE, **self._of)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most or _is_anothers(status):
                return None
            with os.fdopen(os.dup(file), "rb") as opened:
                return opened.read(most)
        except OSError:
            return None
        finally:
            os.close(file)

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file in one step, so that no reader sees half of it.

        Raises:
            OSError: A full or read-only disk.
        """
        temporary = f".{os.urandom(8).hex()}.tmp"
        file = os.open(self._at(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, **self._of)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content)
            if self._descriptor is None:
                os.replace(self._at(temporary), self._at(name))
            else:
                os.replace(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.remove(temporary)
            raise

    def files(self, suffix: str) -> dict[str, int]:
        """The sizes of the files whose names end so."""
        found = {}
        for name in os.listdir(self._place if self._descriptor is None else self._descriptor):  # noqa: PTH208
            if name.endswith(suffix):
                with contextlib.suppress(OSError):
                    status = os.stat(self._at(name), follow_symlinks=False, **self._of)  # noqa: PTH116 - in what is open
                    found[name] = status.st_size
        return found

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(self._at(name), **self._of)


@contextlib.contextmanager
def open_folder(*parts: str, creates: bool = False) -> Iterator[Folder]:
    """Open the folder ``parts`` below ``XFERLIB_CACHE_DIR``.

    Raises:
        NotUsedError: It, or a folder above it, is another user's or may be written by one; or there is no home.
        OSError, ValueError: It does not exist, or cannot be made or opened.
    """
    place = path(*parts)
    if str(place).startswith("~"):
        raise NotUsedError(f"{place}: this user has no home directory; set XFERLIB_CACHE_DIR")
    place = Path(os.path.realpath(place))
    if not _HAS_FOLDERS:
        if creates:
            place.mkdir(parents=True, exist_ok=True)
        if not place.is_dir():
            raise FileNotFoundError(str(place))
        yield Folder(place, None)
        return
    descriptor = os.open(place.anchor, _PASSING | _FOLDER)
    try:
        _check_parent(Path(place.anchor), os.fstat(descriptor))
        for number in range(2, len(place.parts) + 1):
            above, descriptor = descriptor, _inner(place, number, descriptor, creates=creates)
            os.close(above)
        yield Folder(place, descriptor)
    finally:
        os.close(descriptor)


def _inner(place: Path, number: int, above: int, *, creates: bool) -> int:
    """Open the folder of the first ``number`` parts of ``place`` in the one above it, and check it."""
    folder = Path(*place.parts[:number])
    is_last = number == len(place.parts)
    how = _FOLDER | (os.O_RDONLY if is_last else _PASSING)
    try:
        try:
            descriptor = os.open(folder.name, how, dir_fd=above)
        except FileNotFoundError:
            if not creates:
                raise
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.mkdir(folder.name, 0o700, dir_fd=above)
            descriptor = os.open(folder.name, how, dir_fd=above)
    except NotADirectoryError:
        raise NotUsedError(f"{folder} is not a directory; remove it or set XFERLIB_CACHE_DIR") from None
    try:
        status = os.fstat(descriptor)
        if is_last:
            _check_own(folder, status)
        else:
            _check_parent(folder, status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_own(folder: Path, status: os.stat_result) -> None:
    if status.st_uid != os.getuid():
        raise NotUsedError(
            f"{folder} belongs to user {status.st_uid}; set XFERLIB_CACHE_DIR to a directory of your own"
        )
    if status.st_mode & 0o022:
        raise NotUsedError(f"{folder} can be written by others; run chmod 700 on it")


def _check_parent(folder: Path, status: os.stat_result) -> None:
    """Refuse a folder in which another user may rename what is ours; in a sticky one, such as /tmp, none may."""
    if status.st_uid not in (0, os.getuid()):
        raise NotUsedError(
            f"{folder}, above the cache, belongs to user {status.st_uid}; set XFERLIB_CACHE_DIR to a directory of your "
            "own"
        )
    is_open = status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_private(status.st_gid))
    if is_open and not status.st_mode & stat.S_ISVTX:
        raise NotUsedError(
            f"{folder}, above the cache, can be written by others; set XFERLIB_CACHE_DIR to a directory of your own"
        )


def _is_private(group: int) -> bool:
    """Whether a group is the user's alone, as many systems give one to each user, and folders are theirs to write."""
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def _is_anothers(status: os.stat_result) -> bool:
    return _HAS_FOLDERS and (status.st_uid != os.getuid() or bool(status.st_mode & 0o022))
