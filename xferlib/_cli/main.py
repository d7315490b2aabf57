"""The ``xferlib`` command. A subcommand's module is imported when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from xferlib.errors import XferError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Command(NamedTuple):
    path: str
    """``module:function``, called with the remaining arguments; returns the exit status."""
    help: str


_COMMANDS: dict[str, _Command] = {
    "info": _Command("xferlib._cli.info:main", "backends, devices, configuration and versions"),
    "demo": _Command("xferlib._cli.demo.command:main", "train on handwritten digits on every backend"),
    "trace": _Command("xferlib._cli.trace:main", "run a script and draw what it copies and computes, and when"),
    "bench transfer": _Command("xferlib._cli.bench.transfer:main", "GB/s of transfers, beside the other libraries"),
    "bench sweep": _Command(
        "xferlib._cli.bench.sweep.command:main",
        "random transfers, trees, kernels and reductions, beside the best of others",
    ),
    "cache info": _Command("xferlib._cli.cache:info", "where compiled kernels are kept, and how many"),
    "cache clear": _Command("xferlib._cli.cache:clear", "delete the compiled kernels"),
}
_ONLY_IN_CHECKOUTS = {f"bench {name}": f"python -m benchmarks {name}" for name in ("kernels", "overlap")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; one of xferlib's errors becomes one line on standard error, and status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        name, rest = _split(arguments)
        status = _load(_COMMANDS[name].path)(rest)
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
        if name in _COMMANDS:
            return name, arguments[words:]
    if len(arguments) == 2 and arguments[1] in ("-h", "--help") and _group(arguments[0]):
        _group_parser(arguments[0]).parse_args(["--help"])
    parser = _parser()
    parser.parse_args(arguments[:1])  # answers --help and --version
    name = " ".join(arguments[:2])
    if name in _ONLY_IN_CHECKOUTS:
        parser.error(
            f"{name!r} is not in the installed package; run `{_ONLY_IN_CHECKOUTS[name]}` in a checkout of xferlib"
        )
    choices = _group(arguments[0]) or list(_COMMANDS)
    return parser.error(f"there is no command {name!r}; the commands are {', '.join(choices)}")


def _group(word: str) -> list[str]:
    """The commands of two words that begin with this one."""
    return [each for each in _COMMANDS if each.startswith(f"{word} ")]


def _listed(names: Sequence[str]) -> str:
    width = max(map(len, names)) + 2
    return "commands:\n" + "\n".join(f"  {name:{width}}{_COMMANDS[name].help}" for name in names)


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
        epilog=f"{_listed(list(_COMMANDS))}\n\n`xferlib command --help` explains a command.",
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


def _load(path: str) -> Callable[[list[str]], int]:
    module, _, function = path.partition(":")
    found: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return found
