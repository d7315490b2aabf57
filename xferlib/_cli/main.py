"""The ``xferlib`` command. A subcommand's module is imported when it runs."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._runtime.version import __version__, install_command
from xferlib.errors import BackendUnavailableError, XferError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


# Lines that fit a terminal, and in a pipe stay whole, so that `grep` finds them; tables; progress.

_LEAST_WIDTH = 30


def terminal_columns() -> int | None:
    """The columns of the terminal on standard output; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrap(line: str, width: int | None, *, indent: int) -> list[str]:
    """Break a line into lines of ``width`` columns, those after the first indented; whole where that is None."""
    if width is None:
        return [line.rstrip()]
    return textwrap.wrap(
        line, max(width, _LEAST_WIDTH), subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )


def align(rows: list[list[str]]) -> list[str]:
    """Write a table as lines: the first column is aligned at its beginning, the others at their end."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]).rstrip()
        for name, *cells in rows
    ]


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show the current step in one line, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    try:
        yield lambda text: print(f"\r\x1b[K{what}: {text}", end="", file=sys.stderr, flush=True)
    finally:
        sys.stderr.write("\r\x1b[K")


# Arguments that several commands have, checked before any work is done; for ``type=`` of an argument.


def has_module(name: str) -> bool:
    """Whether a package is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


def require(module: str, what: str, *, extra: str) -> None:
    """Refuse what needs a package that is not installed; ``extra`` of xferlib installs it.

    Raises:
        BackendUnavailableError: As said.
    """
    if not has_module(module):
        raise BackendUnavailableError(f"{what} needs {module}, which is not installed: {install_command(extra)}")


def output_file(text: str) -> Path:
    """The path of a file that the command writes at its end: check that it can be written to."""
    from pathlib import Path

    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {path.absolute().parent} must be a directory")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: you have no permission to")
    return path


def picture_file(text: str) -> Path:
    """The path of a picture: an `output_file` in a format that every matplotlib writes."""
    from xferlib._trace.trace import PICTURES

    path = output_file(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a picture: give a name that ends in .png, .svg or .pdf")
    return path


def seconds(text: str) -> float:
    """A time in seconds, more than none."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return found


def parse_seed(text: str) -> int:
    """The seed of random numbers, from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def parse_size(text: str) -> int:
    """Bytes from a size such as 64MiB."""
    from xferlib._runtime.process import parse_nbytes

    try:
        return parse_nbytes(text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


# The commands: the module of each, which is imported when the command runs, and what it is for.


class CommandArgument(NamedTuple):
    """An argument of a command, as ``add_argument`` takes it."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> CommandArgument:
    """An argument by the words of ``add_argument``."""
    return CommandArgument(names, options)


class Command(NamedTuple):
    """A command, as the table `COMMANDS` of its module has it."""

    run: Callable[[argparse.Namespace], int]
    """Returns the exit status."""
    description: str
    arguments: Callable[[], tuple[CommandArgument, ...]] = tuple
    """Makes them when they are needed, since some name what is installed."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Of the parser: what differs from the usual one."""
    parse: Callable[[argparse.ArgumentParser, list[str]], argparse.Namespace] = argparse.ArgumentParser.parse_args

    def make_parser(self, name: str) -> argparse.ArgumentParser:
        """The parser of its arguments."""
        made = argparse.ArgumentParser(prog=f"xferlib {name}", description=self.description, **self.options)
        for names, options in self.arguments():
            made.add_argument(*names, **options)
        return made


class CommandEntry(NamedTuple):
    """A command by its module."""

    module: str
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "info": CommandEntry("info", "backends, devices, configuration and versions"),
    "doctor": CommandEntry("doctor", "find what makes programs fail or slow on this machine"),
    "demo": CommandEntry("demo", "train on handwritten digits on every backend"),
    "trace": CommandEntry("trace", "run a script and draw what it copies and computes, and when"),
    "pretend": CommandEntry("pretend", "run a program that uses CuPy on a simulated device"),
    "bench transfer": CommandEntry("bench", "GB/s of transfers, beside the other libraries"),
    "bench sweep": CommandEntry("bench", "random transfers, kernels and reductions, beside the best of others"),
    "cache info": CommandEntry("info", "where compiled kernels are kept, and how many"),
    "cache clear": CommandEntry("info", "delete the compiled kernels"),
    "completion": CommandEntry("", "print a script for the shell's completion"),
}
"""By one word, or by two."""
GROUPS = {"bench": "benchmarks", "cache": "the compiled kernels on disk"}
"""The first words of commands of two."""
ONLY_IN_CHECKOUTS = {f"bench {name}": f"python -m benchmarks {name}" for name in ("kernels", "overlap")}


def load(name: str) -> Command:
    """Import a command."""
    if name == "completion":
        return _COMPLETION
    found: Command = importlib.import_module(f"xferlib._cli.{COMMANDS[name].module}").COMMANDS[name]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; one of xferlib's errors becomes one line on standard error, and status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        name, rest = _split(arguments)
        command = load(name)
        status = command.run(command.parse(command.make_parser(name), rest))
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


def print_traceback(error: Exception, script: str) -> bool:
    """Print a traceback from the script's first line on, and of one of xferlib's errors to the script's last line.

    Of an error that came before the script ran, as one of its syntax, the error alone is printed.

    Returns:
        False, and nothing is printed, of one of xferlib's errors that came before.
    """
    import traceback

    from xferlib._runtime.checks import is_own

    lines = traceback.TracebackException.from_exception(error)
    while lines.stack and lines.stack[0].filename != script:
        lines.stack.pop(0)
    while lines.stack and isinstance(error, XferError) and is_own(lines.stack[-1].filename):
        lines.stack.pop()
    if not lines.stack and isinstance(error, XferError):
        return False
    shown = lines.format() if lines.stack else lines.format_exception_only()
    print("".join(shown), end="", file=sys.stderr)
    return True


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


def _format_names(names: Sequence[str]) -> str:
    indent = max(map(len, names)) + 4
    width = shutil.get_terminal_size().columns - 2  # as argparse does
    lines = [
        line for name in names for line in wrap(f"  {name:{indent - 2}}{COMMANDS[name].help}", width, indent=indent)
    ]
    return "\n".join(["commands:", *lines])


def _group_parser(word: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"xferlib {word}",
        usage=f"xferlib {word} command [arguments]",
        epilog=f"{_format_names(_group(word))}\n\n`xferlib {word} command --help` explains a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xferlib",
        usage="xferlib [--version] command [arguments]",
        description="Move arrays to accelerators, compute, and move them back.",
        epilog=f"{_format_names(list(COMMANDS))}\n\n`xferlib command --help` explains a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"xferlib {__version__}", help="print the version")
    parser.add_argument("command", help="one of those below")
    return parser


# `xferlib completion`: a script with which a shell completes commands, options and files.


def print_completion(options: argparse.Namespace) -> int:
    """Print the script."""
    require("shtab", "completion", extra="completion")
    import shtab

    print(shtab.complete(_command_tree(), options.shell))
    return 0


_COMPLETION = Command(
    print_completion,
    "Print a script for completion by the Tab key. "
    'For bash, add to ~/.bashrc: eval "$(xferlib completion bash)". '
    "For zsh, write it to a file _xferlib in a folder of fpath.",
    lambda: (argument("shell", choices=("bash", "zsh", "tcsh")),),
)


def _command_tree() -> argparse.ArgumentParser:
    """One parser with all commands in it, whose options say which of them take files."""
    import shtab

    root = argparse.ArgumentParser(prog="xferlib")
    root.add_argument("--version", action="store_true", help="print the version")
    below = root.add_subparsers()
    groups = {name: below.add_parser(name, help=text).add_subparsers() for name, text in GROUPS.items()}
    for name, command in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        own = load(name).make_parser(name)
        for action in own._actions:
            if action.metavar in ("FILE", "DIR") or action.dest == "script":
                kind = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
                action.complete = kind  # type: ignore[attr-defined]  # shtab's own convention
        (groups[group] if group else below).add_parser(last, help=command.help, parents=[own], add_help=False)
    return root
