"""Programs in processes of their own, forked from one that has imported NumPy unless the start is the question."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HANG_S = 200
"""A program that hangs is killed; a busy machine does not take as long."""
_READ_AT_THE_START = ("PYTHON", "LD_", "MALLOC_")
"""Beginnings of variables that a process reads before its first module; all but those of where modules are."""


class Template:
    """A process that has imported modules, and forks children which run programs, one at a time."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        command = [sys.executable, "-m", "tests.template", *modules]
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # Unbuffered, so that select() sees each number that has not been read; in a session of its own, so that Ctrl-C
        # is heard by pytest alone, which then ends the program.
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=-1, stdout=-1, bufsize=0, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._programs, self._answers = process, process.stdin, process.stdout
        atexit.register(self._end)

    def run(self, program: dict[str, Any]) -> int:
        """Return the exit status of a program; one that hangs is killed, with the processes that it has started."""
        self._programs.write(json.dumps(program).encode() + b"\n")
        child = self._next_answer()
        ended: list[Any] = []
        try:
            ended, _, _ = select.select([self._answers], [], [], HANG_S)
        finally:
            if not ended:
                with contextlib.suppress(ProcessLookupError):  # it has ended by now
                    os.killpg(child, signal.SIGKILL)
            status = self._next_answer()
        return status

    def _next_answer(self) -> int:
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"the process that forks the programs of tests has ended: {self.process.wait()}")
        return int(answer)

    def _end(self) -> None:
        self._programs.close()
        self.process.wait()
        self._answers.close()


NUMPY, TORCH = ("numpy",), ("numpy", "torch", "torch.distributed")
SIM = (*NUMPY, "xferlib.sim.backend", "xferlib.kernels.calls", "xferlib.kernels.c_frontend.translate")
"""With what most programs on `sim` import, none of which reads a setting but XFERLIB_NATIVE."""
IMPORTED = {"torch": TORCH, "sim": SIM}
"""The modules that a program on a backend may find imported, where they are more than NumPy."""
_templates: dict[tuple[str, ...], Template] = {}


def template(modules: tuple[str, ...]) -> Template:
    """Return the process that has imported these modules: one for each set of them, and another if that has ended."""
    found = _templates.get(modules)
    if found is None or found.process.poll() is not None:
        found = _templates[modules] = Template(modules)
    return found


def is_begun_alike(environ: dict[str, str]) -> bool:
    """Whether a process that begins with these variables is one that began with those of this process."""
    first, second = (
        {name: value for name, value in each.items() if name.startswith(_READ_AT_THE_START) and name != "PYTHONPATH"}
        for each in (environ, os.environ)
    )
    return first == second


def run(
    *arguments: str,
    cwd: Path | None = None,
    environ: dict[str, str] | None = None,
    after: tuple[str, ...] = NUMPY,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments; one that hangs is killed.

    Args:
        arguments: ``-c CODE``, ``-m MODULE`` or a file, and the program's own; options of Python need ``after=()``.
        cwd: The folder that it begins in.
        environ, variables: Its environment instead of this process's, and variables beside that.
        after: The modules that it may find imported. Without any it has a process from the start, as it has with
            other variables that a process reads at its start.
    """
    environ = {**(os.environ if environ is None else environ), **variables}
    # macOS forbids a forked child most of its libraries.
    if not after or sys.platform != "linux" or not is_begun_alike(environ):
        return start([sys.executable, *arguments], environ, cwd)
    with _outputs() as (output, errors):
        files = {"output": output.name, "errors": errors.name}
        program = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "environ": environ, **files}
        return _done([*arguments], template(after).run(program), output, errors)


def start(line: list[str], environ: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; one that hangs is killed, with the processes that it has started."""
    with _outputs() as (output, errors):
        process = subprocess.Popen(line, cwd=cwd, env=environ, stdout=output, stderr=errors, start_new_session=True)
        try:
            process.wait(HANG_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        return _done(line, process.returncode, output, errors)


@contextlib.contextmanager
def _outputs() -> Iterator[tuple[Any, Any]]:
    with tempfile.NamedTemporaryFile("w+") as output, tempfile.NamedTemporaryFile("w+") as errors:
        yield output, errors


def _done(line: list[str], status: int, output: Any, errors: Any) -> subprocess.CompletedProcess[str]:
    output.seek(0)
    errors.seek(0)
    return subprocess.CompletedProcess(line, status, output.read(), errors.read())


def printed(*arguments: str, **given: Any) -> str:
    """Return what a program prints, which must not fail; arguments as for `run`."""
    done = run(*arguments, **given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_quietly(*arguments: str) -> None:
    """Run a program that must neither fail nor say anything, from its start to its end."""
    done = run(*arguments, after=())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def path_with(*folders: Path) -> str:
    """A ``PYTHONPATH`` that puts folders before all that this process sees."""
    return os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
