"""``xferlib trace``: run a script, and show its copies and kernels."""

from __future__ import annotations

import argparse
import runpy
import sys
from functools import partial
from pathlib import Path

from xferlib._cli.main import Command, argument, print_traceback, require
from xferlib._trace.trace import PICTURES, check_path, trace
from xferlib.errors import ArgumentError, nearest


def run_trace(options: argparse.Namespace) -> int:
    """Run the script as Python would, then print a summary and write the requested files.

    Returns:
        The script's exit status; 1 after an exception, whose traceback is shown.
    """
    if options.plot is not None:
        require("matplotlib", "--plot", extra="trace")  # before the script runs
    with trace(keep=options.keep) as t:
        status = _run(options.script, options.arguments)
    print(t.summary(), file=sys.stderr)
    if options.json is not None:
        t.write(options.json)
    if options.plot is not None:
        t.plot(options.plot, title=options.title if options.title is not None else options.script.name)
    return status


def _split_arguments(made: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Separate our options, wherever they stand, from the script's; everything after ``--`` is the script's."""
    ours, after = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    options, arguments = made.parse_known_args(ours)
    known = [each for action in made._actions for each in action.option_strings if each.startswith("--")]
    for each in arguments:
        name = each.partition("=")[0]
        if name.startswith("--") and (near := nearest(name, known)) is not None:
            made.error(f"{name} is not an option (did you mean {near}?); an option of the script's own stands after --")
    options.arguments = arguments + after
    return options


def _script(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return path


def _check_output_path(endings: tuple[str, ...], text: str) -> Path:
    try:
        return check_path(text, endings)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_picture, _timeline = partial(_check_output_path, PICTURES), partial(_check_output_path, (".json",))


def _run(script: Path, arguments: list[str]) -> int:
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        return _status(error.code)
    except KeyboardInterrupt:
        print("xferlib: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if not print_traceback(error, str(script)):
            raise
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


COMMANDS = {
    "trace": Command(
        run_trace,
        "Run a script and record every copy, staging step and kernel that xferlib enqueues in it. "
        "A summary goes to standard error.",
        lambda: (
            argument("script", type=_script, help="a Python file, run as __main__"),
            argument("--plot", type=_picture, metavar="FILE", help="draw the timeline: .png, .svg or .pdf"),
            argument("--json", type=_timeline, metavar="FILE", help="write the timeline for https://ui.perfetto.dev"),
            argument("--title", help="of the picture; the script's name if omitted"),
            argument("--keep", type=int, default=100_000, help="operations to remember (100000)"),
        ),
        {
            "usage": "xferlib trace [options] script.py [arguments]",
            "epilog": "Options may stand before or after the script; what follows -- is the script's alone.",
            "allow_abbrev": False,
        },
        _split_arguments,
    )
}
