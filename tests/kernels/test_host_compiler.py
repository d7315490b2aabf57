"""Libraries from C source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xferlib.errors import KernelCompileError
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


_COMPILER = """#!/bin/sh
for word in "$@"; do
  case $word in
    {unknown}) echo "error: unknown argument: '$word'" >&2; exit 1;;
    -E) echo '{macro}'; exit 0;;
  esac
done
exec cc "$@"
"""
_COMPILERS = {
    "clang 20": ("-fno-thread-jumps|-fno-tree-pre|-fno-tree-loop-*|--param*", "#define __clang__ 1"),
    "gcc 10": ("--param*", "#define __GNUC__ 10"),
}
"""Those of our options that a compiler refuses, and a macro that tells it."""


@pytest.mark.skipif(os.name != "posix", reason="the compiler is a shell script")
@pytest.mark.parametrize("is_for_this_processor", [True, False])
@pytest.mark.parametrize("name", _COMPILERS)
def test_a_compiler_is_given_no_option_that_is_anothers_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, *, is_for_this_processor: bool
) -> None:
    unknown, macro = _COMPILERS[name]
    program = tmp_path / "compiler"
    program.write_text(_COMPILER.format(unknown=unknown, macro=macro))
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    compiler = host_compiler.find_compiler()
    assert compiler is not None
    target = host_compiler.find_target(compiler) if is_for_this_processor else None
    source = f"int give(void) {{ return {4 + is_for_this_processor}; }}"
    assert host_compiler.compile_c(source, flags=native_source.OPTIONS, target=target)


@pytest.mark.skipif(os.name != "posix", reason="the compiler is a shell command")
def test_a_command_that_compiles_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true")
    with pytest.raises(KernelCompileError, match="true ended well and wrote no library"):
        host_compiler.compile_c("int give(void) { return 1; }", flags=("-O1",))
