"""The commands: the module of each, which is imported when the command runs, and what it is for."""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple, Protocol, cast


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
    "doctor": Command("doctor.command", "find what makes programs fail or slow on this machine"),
    "demo": Command("demo.command", "train on handwritten digits on every backend"),
    "trace": Command("trace", "run a script and draw what it copies and computes, and when"),
    "bench transfer": Command("bench.transfer", "GB/s of transfers, beside the other libraries"),
    "bench sweep": Command(
        "bench.sweep.command", "random transfers, trees, kernels and reductions, beside the best of others"
    ),
    "cache info": Command("cache.info", "where compiled kernels are kept, and how many"),
    "cache clear": Command("cache.clear", "delete the compiled kernels"),
    "completion": Command("completion", "print a script for the shell's completion"),
}
"""By one word, or by two."""
GROUPS = {"bench": "benchmarks", "cache": "the compiled kernels on disk"}
"""The first words of commands of two."""
ONLY_IN_CHECKOUTS = {f"bench {name}": f"python -m benchmarks {name}" for name in ("kernels", "overlap")}


def load(name: str) -> CommandModule:
    """Import a command's module."""
    return cast("CommandModule", importlib.import_module(f"xferlib._cli.{COMMANDS[name].module}"))
