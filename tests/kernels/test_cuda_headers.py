"""The code that may be kept: of sources whose headers are all CUDA's own, on a GPU and on a CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.targets import need_nvrtc
from xferlib import use_backend
from xferlib.errors import KernelCompileError, UnsupportedError
from xferlib.kernels import code_cache, raw_module

SPLIT = "#include".replace("in", "in\\\n")
"""A directive on two lines."""
OTHERS = [
    '#include "user.h"', '#  include "user.h"', '#/* */include "user.h"', '/* */ # /**/ include "user.h"',
    '%:include "user.h"', f'{SPLIT} "user.h"', '# \\\n include "user.h"', '#include \\\n"user.h"',
    '#define H "user.h"\n#include H', '#define H <user.h>\n#include H',
    '#if __has_include("user.h")\n#include "user.h"\n#endif',
    "#include <user.h>", "#include <sub/../../user.h>", "#include <user.h> // of ours",
    '#include "user.h"\n#include <own.h>',
    "#include <own.h>\n#include <user.h>", "#define A 1'000\n#define B \"x'/*\"\n#include <user.h>\n/* */",
    '#define R R"(/*)"\n#include <user.h>\n/* */', "// no splice \\ \n#include <user.h>",
]  # fmt: skip
"""Sources that read a header of the user's."""
OWN = [
    "", "#include <own.h>", "  #  include <own.h>  ", "#include <own.h>\r\n#include <sub/deep.h>",
    f"{SPLIT} <own.h>",
    "// what we include\n#include <own.h>", '/* #include "user.h" */', 'const char *text = "#include <user.h>";',
    "const char c = '\"'; /* #include <user.h> */ const char d = '\"';", "int is_included, includes;",
    "#include <own.h> // own",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cuda/own.h", "cuda/sub/deep.h"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (tmp_path / "user.h").write_text("#error read\n")
    return tmp_path / "cuda"


@pytest.mark.parametrize("source", OTHERS)
def test_a_header_that_is_not_cudas_is_seen_however_it_is_written(source: str, folder: Path) -> None:
    assert not code_cache.has_only_cuda_headers(source, (), [folder])


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "own.h/x", "sub"])
def test_a_name_that_no_file_has_is_no_header_of_cudas(name: str, folder: Path) -> None:
    assert not code_cache.has_only_cuda_headers(f"#include <{name}>", (), [folder])


@pytest.mark.parametrize("source", OTHERS)
def test_the_compiler_reads_a_header_in_each_of_these(
    source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_nvrtc()
    from xferlib.backends.cuda.compiler import compile_source

    monkeypatch.chdir(folder.parent)
    options = (f"-I{folder}", f"-I{folder.parent}")
    with pytest.raises(KernelCompileError, match="#error directive: read"):
        compile_source(source, arch="compute_80", options=options, names=())


@pytest.mark.parametrize("source", OWN)
def test_cudas_own_headers_and_words_in_comments_are_no_hindrance(source: str, folder: Path) -> None:
    assert code_cache.has_only_cuda_headers(source, ("-DN=3", "--std=c++17"), [folder])


@pytest.mark.parametrize(
    "option", ["-I/x", "-I", "--include-path=/x", "-include=x.h", "--pre-include=x.h", "-isystem/x"]
)
def test_options_that_name_files_are_seen(option: str, folder: Path) -> None:
    assert not code_cache.has_only_cuda_headers("", (option,), [folder])


def test_folders_are_told_apart_by_what_is_installed_in_them(folder: Path) -> None:
    before = code_cache.identify_headers([folder])
    os.utime(folder, ns=(0, 0))
    assert code_cache.identify_headers([folder]) != before


class _Compiler:
    """The calls that a module makes to a CUDA backend to compile."""

    def __init__(self) -> None:
        self.count = 0

    def compiler_version(self) -> str:
        return "1"

    def compile(self, source: str, **_: Any) -> Any:
        from types import SimpleNamespace

        self.count += 1
        return SimpleNamespace(cubin=b"code", names={}, log="")


@pytest.mark.parametrize(("line", "count"), [('# include "user.h"', 2), ("// to include", 1), ("", 1)])
def test_a_gpus_code_is_kept_by_the_same_rule(
    line: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_cache, "find_header_folders", lambda source: ())
    compiler: Any = _Compiler()
    source = f"{line}\n// {tmp_path}\n__global__ void k(int n) {{}}"
    for _ in range(2):
        assert raw_module(source)._compile(compiler, None, "sm_90", None) == (b"code", {})
    assert compiler.count == count


def test_without_cudas_packages_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that includes a header fails as any other does, by the compiler that is missing."""
    find_all = code_cache._find_all_header_folders.__wrapped__
    monkeypatch.setattr(code_cache, "list_cuda_packages", lambda: ())
    monkeypatch.setattr(code_cache, "_find_all_header_folders", find_all)
    for name in [each for each in sys.modules if each == "cuda" or each.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.delitem(sys.modules, "xferlib.backends.cuda.compiler", raising=False)
    monkeypatch.delattr("xferlib.backends.cuda.compiler", raising=False)
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void k(int *x) { *x = 1; }'
    with use_backend("numpy"), pytest.raises(UnsupportedError, match=r"NVRTC, which is not installed.*cuda-on-cpu"):
        raw_module(source).get_function("k")(1, 1, (np.zeros(1, np.int32),))
