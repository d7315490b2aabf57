"""The command: every check in turn, none of which can end another, and their findings in order."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from xferlib import __version__
from xferlib._cli.columns import terminal_columns, wrapped
from xferlib._cli.doctor import caches, compiled, cores, cuda, gpus, links, memory, trials, variables, versions
from xferlib._cli.doctor.finding import NOTE, PROBLEM, SEVERITIES, Finding, note, ordered
from xferlib._cli.doctor.machine import InspectedMachine
from xferlib._core import registry

Check = Callable[[InspectedMachine], Iterator[Finding]]

_CHECKS: dict[str, Check] = {
    "variables": variables.findings,
    "driver": cuda.findings,
    "versions": versions.findings,
    "compiled parts": compiled.findings,
    "GPUs": gpus.findings,
    "links": links.findings,
    "cores": cores.findings,
    "memory": memory.findings,
    "cache": caches.findings,
}
_INDENT = 9


def main(argv: list[str]) -> int:
    """Print the findings, the worst first; 1 if one of them is a problem."""
    options = parser().parse_args(argv)
    machine = InspectedMachine(options.root, dict(os.environ))
    checks = dict(_CHECKS)
    if not options.quick:
        checks["backends"] = partial(trials.findings, chosen=options.backend or registry.names(), report=_report)
    found = ordered([each for name, check in checks.items() for each in _isolated(name, check, machine)])
    status = int(any(each.severity == PROBLEM for each in found))
    if options.json:
        print(json.dumps({"version": __version__, "status": status, "findings": [each._asdict() for each in found]}))
    else:
        print(as_text(found, terminal_columns()))
    return status


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="xferlib doctor",
        description="Find out what on this machine makes programs fail or slow, and what to do about it. "
        "Nothing is changed.",
        epilog="The exit status is 1 if there is a problem, 0 if there is none.",
    )
    made.add_argument("--json", action="store_true", help="print the same as JSON")
    made.add_argument("--quick", action="store_true", help="leave out the trials on each backend, which take seconds")
    names = registry.names()
    made.add_argument(
        "--backend",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"try this backend alone: {', '.join(names)}; may be given repeatedly",
    )
    made.add_argument(
        "--root",
        type=_directory,
        metavar="DIR",
        default=Path("/"),
        help="where proc and sys are, such as those of a host",
    )
    return made


def _directory(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}")
    return path


def _report(text: str) -> None:
    if sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr, flush=True)


def _isolated(name: str, check: Check, machine: InspectedMachine) -> Iterator[Finding]:
    """All that a check finds; an error of its own is one more finding."""
    try:
        for found in check(machine):
            yield found._replace(check=found.check or name)
    except Exception as error:
        yield note(
            f"this check failed: {type(error).__name__}: {error}",
            "It says nothing about the machine.",
            "Report it with the output of `xferlib doctor --json`.",
        )._replace(check=name)


def as_text(found: list[Finding], width: int | None) -> str:
    """The findings as lines of at most ``width`` columns; of any length where that is None, as in a pipe."""
    lines = []
    for each in found:
        texts = [each.fact, each.consequence, each.remedy]
        paragraphs = [text for text in texts if text]
        for number, text in enumerate(paragraphs):
            head = each.severity if number == 0 else ""
            lines += wrapped(f"{head:{_INDENT}}{text}", width, indent=_INDENT)
        if len(paragraphs) > 1:
            lines.append("")
    return "\n".join([*lines, *([] if lines[-1:] == [""] else [""]), _summary(found)])


def _summary(found: list[Finding]) -> str:
    counts = {severity: sum(each.severity == severity for each in found) for severity in SEVERITIES}
    plural = {PROBLEM: "problems", NOTE: "notes"}
    return ", ".join(f"{n} {plural.get(name, name) if n != 1 else name}" for name, n in counts.items())
