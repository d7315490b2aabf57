"""``xferlib completion``: a script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
import importlib.util

from xferlib._cli import main as commands
from xferlib._runtime.version import install_command
from xferlib.errors import ConfigError

_SHELLS = ("bash", "zsh", "tcsh")


def main(argv: list[str]) -> int:
    """Print the script."""
    options = parser().parse_args(argv)
    if importlib.util.find_spec("shtab") is None:
        raise ConfigError(f"completion needs shtab, which is not installed: {install_command('completion')}")
    import shtab

    print(shtab.complete(_tree(), options.shell))
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="xferlib completion",
        description="Print a script for completion by the Tab key. "
        'For bash, add to ~/.bashrc: eval "$(xferlib completion bash)". '
        "For zsh, write it to a file _xferlib in a folder of fpath.",
    )
    made.add_argument("shell", choices=_SHELLS)
    return made


def _tree() -> argparse.ArgumentParser:
    """One parser with all commands in it, whose options say which of them take files."""
    root = argparse.ArgumentParser(prog="xferlib")
    root.add_argument("--version", action="store_true", help="print the version")
    below = root.add_subparsers()
    groups = {}
    for name, command in commands.COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = below.add_parser(group, help=commands.GROUPS[group]).add_subparsers()
        its = commands.load(name).parser()
        for action in its._actions:
            _mark(action)
        (groups[group] if group else below).add_parser(last, help=command.help, parents=[its], add_help=False)
    return root


def _mark(action: argparse.Action) -> None:
    """Tell shtab of an argument that is a path."""
    import shtab

    if action.metavar in ("FILE", "DIR") or action.dest == "script":
        kind = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        action.complete = kind  # type: ignore[attr-defined]  # shtab's own convention
