"""Libraries from C source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xferlib.kernels import host_compiler, native_source

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


_CLANG = """#!/bin/sh
for word in "$@"; do
  case $word in
    -fno-thread-jumps|-fno-tree-pre|-fno-tree-loop-*) echo "error: unknown argument: '$word'" >&2; exit 1;;
    -E) echo '#define __clang__ 1'; exit 0;;
  esac
done
exec cc "$@"
"""
"""A compiler that refuses what clang 20 does, of the options that there are."""


@pytest.mark.skipif(os.name != "posix", reason="the compiler is a shell script")
@pytest.mark.parametrize("is_for_this_processor", [True, False])
def test_clang_is_given_no_option_that_is_gccs_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_for_this_processor: bool
) -> None:
    program = tmp_path / "clang"
    program.write_text(_CLANG)
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    compiler = host_compiler.find_compiler()
    assert compiler is not None
    target = host_compiler.find_target(compiler) if is_for_this_processor else None
    source = f"int give(void) {{ return {4 + is_for_this_processor}; }}"
    assert host_compiler.compile_c(source, flags=native_source.OPTIONS, target=target)
