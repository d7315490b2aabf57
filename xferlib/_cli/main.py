"""The ``xferlib`` command. A subcommand's module is imported when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from xferlib.errors import XferError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


# Lines that fit a terminal, and in a pipe stay whole, so that `grep` finds them; tables.

_LEAST_WIDTH = 30


def terminal_columns() -> int | None:
    """The columns of the terminal on standard output; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(line: str, width: int | None, *, indent: int) -> list[str]:
    """A line as lines of at most ``width`` columns, those after the first indented; whole where that is None."""
    if width is None:
        return [line.rstrip()]
    return textwrap.wrap(
        line, max(width, _LEAST_WIDTH), subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )


def aligned(rows: list[list[str]]) -> list[str]:
    """A table's lines: the first column begins in one line, the others end in one."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]).rstrip()
        for name, *cells in rows
    ]


# The commands: the module of each, which is imported when the command runs, and what it is for.


class CommandModule(Protocol):
    """The contents of a command's module."""

    def main(self, argv: list[str]) -> int:
        """Run with the remaining arguments; returns the exit status."""

    def parser(self) -> argparse.ArgumentParser:
        """The parser of its arguments."""


class Command(NamedTuple):
    """A command by its module."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "info": Command("info", "backends, devices, configuration and versions"),
    "doctor": Command("doctor", "find what makes programs fail or slow on this machine"),
    "demo": Command("demo", "train on handwritten digits on every backend"),
    "trace": Command("trace", "run a script and draw what it copies and computes, and when"),
    "bench transfer": Command("bench_transfer", "GB/s of transfers, beside the other libraries"),
    "bench sweep": Command("bench_sweep", "random transfers, trees, kernels and reductions, beside the best of others"),
    "cache info": Command("cache_info", "where compiled kernels are kept, and how many"),
    "cache clear": Command("cache_clear", "delete the compiled kernels"),
    "completion": Command("completion", "print a script for the shell's completion"),
}
"""By one word, or by two."""
GROUPS = {"bench": "benchmarks", "cache": "the compiled kernels on disk"}
"""The first words of commands of two."""
ONLY_IN_CHECKOUTS = {f"bench {name}": f"python -m benchmarks {name}" for name in ("kernels", "overlap")}


def load(name: str) -> CommandModule:
    """Import a command's module."""
    return cast("CommandModule", importlib.import_module(f"xferlib._cli.{COMMANDS[name].module}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; one of xferlib's errors becomes one line on standard error, and status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        name, rest = _split(arguments)
        status = load(name).main(rest)
        sys.stdout.flush()
    except XferError as error:
        print(f"xferlib: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("xferlib: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `xferlib info | head`: Python would complain again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """Split off the subcommand, of one word or two, from its own arguments."""
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in COMMANDS:
            return name, arguments[words:]
    if not arguments:
        _parser().print_help(sys.stderr)
        raise SystemExit(2)
    if len(arguments) == 2 and arguments[1] in ("-h", "--help") and _group(arguments[0]):
        _group_parser(arguments[0]).parse_args(["--help"])
    parser = _parser()
    parser.parse_args(arguments[:1])  # answers --help and --version
    name = " ".join(arguments[:2])
    if name in ONLY_IN_CHECKOUTS:
        parser.error(
            f"{name!r} is not in the installed package; run `{ONLY_IN_CHECKOUTS[name]}` in a checkout of xferlib"
        )
    if not _group(arguments[0]) and (arguments[0] not in COMMANDS):
        name = arguments[0]  # what follows are its arguments
    if group := _group(name):
        parser.error(f"{name!r} is the first word of several commands; give one of {', '.join(group)}")
    choices = _group(arguments[0]) or [*COMMANDS, "--help", "--version"]
    near = [*choices, *(each.partition(" ")[0] for each in choices)]
    return parser.error(
        f"there is no command {name!r}{did_you_mean(name, near)}; the commands are {', '.join(choices)}"
    )


def _group(word: str) -> list[str]:
    """The commands of two words that begin with this one."""
    return [each for each in COMMANDS if each.startswith(f"{word} ")]


def _listed(names: Sequence[str]) -> str:
    indent = max(map(len, names)) + 4
    width = shutil.get_terminal_size().columns - 2  # as argparse does
    lines = [
        line for name in names for line in wrapped(f"  {name:{indent - 2}}{COMMANDS[name].help}", width, indent=indent)
    ]
    return "\n".join(["commands:", *lines])


def _group_parser(word: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"xferlib {word}",
        usage=f"xferlib {word} command [arguments]",
        epilog=f"{_listed(_group(word))}\n\n`xferlib {word} command --help` explains a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xferlib",
        usage="xferlib [--version] command [arguments]",
        description="Move arrays to accelerators, compute, and move them back.",
        epilog=f"{_listed(list(COMMANDS))}\n\n`xferlib command --help` explains a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    parser.add_argument("command", help="one of those below")
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from xferlib import __version__

        print(f"xferlib {__version__}")
        parser.exit()
