"""``xferlib pretend cupy program.py``: run a program for CuPy or PyCUDA without a GPU."""

from __future__ import annotations

import argparse

from xferlib._cli.main import Command, CommandArgument, argument, print_traceback


def run_pretend(options: argparse.Namespace) -> int:
    """Run the program; its own errors end the command as they end ``python program.py``.

    Returns:
        The exit status; 1 after an exception of the program, whose traceback is shown.
    """
    from xferlib import _pretend as pretend
    from xferlib.sim import SimError

    try:
        pretend.run(options.library, options.program, options.arguments)
    except SimError:  # whose text has the lines of the program
        raise
    except Exception as error:
        if not print_traceback(error, options.program):
            raise
        return 1
    return 0


def _arguments() -> tuple[CommandArgument, ...]:

    return (
        argument(
            "library",
            metavar="LIBRARY",
            help="the library that the program imports, cupy or pycuda; several with commas between them",
        ),
        argument("program", help="a Python file, run as __main__"),
        argument("arguments", nargs=argparse.REMAINDER, help="the program's own"),
    )


COMMANDS = {
    "pretend": Command(
        run_pretend,
        "Run a program that uses CuPy or PyCUDA on the simulated device: without a GPU, and with its missing "
        "synchronisation and the faults of its kernels reported.",
        _arguments,
    )
}
