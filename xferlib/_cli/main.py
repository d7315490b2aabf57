"""The ``xferlib`` command. A subcommand's module is imported when it runs."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from xferlib._cli.columns import wrapped
from xferlib._cli.commands import COMMANDS, ONLY_IN_CHECKOUTS, load
from xferlib.errors import XferError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


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
