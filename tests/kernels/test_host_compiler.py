"""Libraries from C source."""

from __future__ import annotations

import os

import pytest

from xferlib.kernels import host_compiler

pytestmark = pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")


@pytest.mark.parametrize("has_files_in_memory", [True, False])
def test_libraries_that_are_loaded_at_a_time_are_all_different(
    monkeypatch: pytest.MonkeyPatch, *, has_files_in_memory: bool
) -> None:
    """The loader tells libraries apart by their paths, and a number of a file is used again when it is closed."""
    if not has_files_in_memory:
        monkeypatch.delattr("os.memfd_create", raising=False)
    sources = (f"int give(void) {{ return {number}; }}" for number in range(5))
    libraries = [host_compiler.load_c(source, flags=("-O1",)) for source in sources]
    assert [library.give() for library in libraries] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("folder", ["x" * 300, "x/" * 3000, "", os.devnull, "\x7f"])
def test_a_folder_of_the_path_that_cannot_be_read_holds_no_compiler(
    monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    own = host_compiler._find_program("sh")
    monkeypatch.setenv("PATH", os.pathsep.join([folder, os.environ["PATH"]]))
    assert host_compiler._find_program("sh") == own
