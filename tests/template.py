"""A process that imports modules once and forks a child for each program: ``python -m tests.template MODULE...``.

Each line of its input is a program, as `tests/processes.py` writes it; it answers with the number of the child's
process and, after its end, with its exit status.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import types
from typing import Any

STARTED_WITH = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def answer(number: int) -> None:
    os.write(1, f"{number}\n".encode())


def next_program() -> dict[str, Any] | None:
    """Return the program that this process, a child by now, is to run; None at the end of the input."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            program: dict[str, Any] = json.loads(line)
            return program
        answer(child)
        answer(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return None


def become(program: dict[str, Any]) -> None:
    """Take the folder, environment, import path and output of a process that had been started for it."""
    os.setsid()
    for number, (path, mode) in enumerate(
        [(os.devnull, os.O_RDONLY), (program["output"], os.O_WRONLY), (program["errors"], os.O_WRONLY)]
    ):
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["environ"])
    own = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    others = (each for each in sys.path[1:] if each not in STARTED_WITH)
    sys.path[:] = ["", *dict.fromkeys([*own, *others])]


def run(arguments: list[str]) -> None:
    """Run ``-c CODE``, ``-m MODULE`` or a file, with its arguments, as the main module."""
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()  # noqa: PTH109
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if arguments[0] == "-c":
        code, name = arguments[1], "<string>"
        sys.argv = ["-c", *arguments[2:]]
    else:
        name = main.__file__ = arguments[0]
        with open(name, "rb") as file:
            code = file.read().decode()
        sys.path[0] = os.path.dirname(os.path.abspath(name))  # noqa: PTH100, PTH120
        sys.argv = arguments
    exec(compile(code, name, "exec", dont_inherit=True), main.__dict__)


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a child's collections, those at its end above all, would copy each page of what is shared
    given = next_program()
    if given is not None:
        become(given)
        run(given["arguments"])
