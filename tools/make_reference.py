"""Write what the code knows best: the reference pages (`pages` lists them) and README's table of backends.

    python tools/make_reference.py            write them
    python tools/make_reference.py --check    exit 1 if one is out of date

Needs no library but NumPy: what a CUDA backend can do is read from its source, not by importing it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import xferlib as xl  # noqa: E402 - from this tree, installed or not
from tools.docstrings import markdown, summary  # noqa: E402
from tools.pages import keep, replace_block  # noqa: E402
from xferlib._cli import main as commands  # noqa: E402
from xferlib._cli.info import format_setting  # noqa: E402
from xferlib._core import registry  # noqa: E402
from xferlib._core.device import Capabilities  # noqa: E402
from xferlib._runtime import process as config  # noqa: E402
from xferlib._runtime.version import install_command  # noqa: E402
from xferlib.backends.host import WHY_HOST  # noqa: E402

INTERNAL = {
    "Access": ("of",),
    "Plan": ("choose",),
    "PinnedPool": ("find", "describe_for_native"),
    "Profile": ("costs",),
    "RawModule": ("load",),
    "SimArray": ("memory", "spans"),
    "Timeline": ("add",),
    "Transfer": (
        "abort", "check", "finish", "has_failed", "hold_back", "is_settled", "poll", "precede", "settle", "start",
        "try_start",
    ),
}  # fmt: skip
"""Methods without an underscore that other modules of the library call, and programs do not."""

NOTE = "\n<!-- Written by tools/make_reference.py from the code; edit the docstrings instead. -->\n"

GROUPS: dict[str, tuple[str, ...]] = {
    "Choosing a backend": (
        "use_backend", "available_backends", "BackendStatus", "get_backend", "get_array_module", "namespace",
        "ArrayModule", "is_array", "get_exact_module", "configure",
    ),
    "Devices": ("Device", "get_device", "device_of", "synchronize"),
    "Transfers": (
        "to_device", "to_host", "to_device_async", "to_host_async", "common", "Transfer", "TransferStats", "copy_to",
        "astype",
    ),
    "Overlap": ("prefetch", "Prefetcher", "stream_map"),
    "What a transfer costs": ("explain", "Explanation", "calibrate", "Calibration"),
    "Arrays": (
        "DeviceArray", "asarray", "arange", "linspace", "eye", "concat", "empty", "zeros", "ones", "full", "empty_like",
        "zeros_like", "ones_like", "full_like", "array_over",
    ),
    "Pinned memory": (
        "pinned_empty", "pinned_zeros", "pinned_empty_like", "pinned_array", "pin", "pinned_pool", "PinnedPool",
        "PinnedStats", "trim",
    ),
    "Streams and events": ("Stream", "Event", "current_stream"),
    "Kernels": (
        "elementwise", "ElementwiseKernel", "reduction", "ReductionKernel", "scan", "ScanKernel",
        "raw_module", "RawModule", "RawKernel", "KernelAttributes",
    ),
}  # fmt: skip


def pages() -> dict[str, str]:
    """Every generated page by its path."""
    readme = (ROOT / "README.md").read_text()
    return {
        "docs/reference/api.md": api() + NOTE,
        "docs/reference/configuration.md": configuration() + NOTE,
        "docs/reference/command-line.md": command_line() + NOTE,
        "docs/reference/errors.md": errors() + NOTE,
        "docs/reference/backends.md": backends() + NOTE,
        "README.md": replace_block(readme, "backends", installs()),
    }


# --- api.md


def api() -> str:
    listed = {name for names in GROUPS.values() for name in names}
    rest = tuple(name for name in xl.__all__ if name not in listed)
    modules = [name for name in rest if isinstance(getattr(xl, name), ModuleType) and name != "errors"]
    groups = {**GROUPS, "More": tuple(name for name in rest if name not in modules and name != "errors")}
    parts = ["# API\n\nEverything that `import xferlib as xl` offers. Errors have [their own page](errors.md).\n"]
    for title, names in groups.items():
        present = [name for name in names if name in xl.__all__]
        if present:
            parts.append(f"## {title}\n")
            parts.extend(entry(name, getattr(xl, name)) for name in present)
    for name in modules:
        module = getattr(xl, name)
        parts.append(f"## `xl.{name}`\n\n{markdown(inspect.getdoc(module) or '')}\n")
        parts.extend(entry(f"{name}.{each}", getattr(module, each)) for each in getattr(module, "__all__", ()))
    return "\n".join(parts)


CONSTRUCTORS = ("Device", "Event", "Stream", "random.Generator")
"""Classes that users call; the others are what functions make. Those with the name of a verb are called, too."""


def has_call(name: str, thing: Any) -> bool:
    """Whether a program calls it."""
    if not inspect.isclass(thing):
        return callable(thing)
    return name in CONSTRUCTORS or thing.__name__.islower()


@cache
def examples() -> dict[str, str]:
    """The examples of entries, by name."""
    text = (ROOT / "tools" / "api_examples.txt").read_text()
    return dict(re.findall(r"^== (\S+)\n(.*?)\n*(?=^== |\Z)", text, re.DOTALL | re.MULTILINE))


def entry(name: str, thing: Any) -> str:
    """A heading, the signature, the docstring and an example; for a class its attributes and methods too."""
    parts = [f"### `{name}`\n"]
    short = name.rpartition(".")[2]
    if short != name and getattr(xl, short, None) is thing:
        return f"{parts[0]}\nThe same as [`{short}`](#{short.lower()}).\n"
    if not callable(thing) and not isinstance(thing, ModuleType):
        return f"{parts[0]}\n`{thing!r}`\n"
    if has_call(name, thing):
        parts.append(f"```python\n{signature(name, thing)}\n```\n")
    parts.append(markdown(inspect.getdoc(thing) or "") + "\n")
    if name in examples():
        parts.append(f"**Example**\n\n```python\n{examples()[name]}\n```\n")
    if inspect.isclass(thing):
        values = [f"`{each.name}`" for each in thing] if issubclass(thing, Enum) else []
        if values:
            parts.append(f"**Values**: {', '.join(values)}\n")
        members = [*attributes(thing), *methods(thing)]
        if members:
            parts.append("**Members**\n\n" + "\n".join(members) + "\n")
    return "\n".join(parts)


def signature(name: str, thing: Any) -> str:
    """The call, one parameter a line where it is long; annotations as the source has them."""
    if inspect.isbuiltin(thing):  # a compiled one has none: the Python function that it stands for does
        thing = getattr(sys.modules[thing.__module__], f"_{name}")
    try:
        found = inspect.signature(thing)
    except ValueError:
        return f"{name}(...)"
    parameters = [each for each in found.parameters.values() if each.name not in ("self", "misplaced", "unknown")]
    result = inspect.Signature.empty if inspect.isclass(thing) else found.return_annotation
    found = found.replace(parameters=parameters, return_annotation=result)
    text = f"{name}{found}".replace("'", '"') if '"' not in str(found) else f"{name}{found}"
    text = re.sub(r": \"([^\"]*)\"", r": \1", text)
    text = re.sub(r"-> \"([^\"]*)\"", r"-> \1", text)
    text = text.replace("Result_co", "Result")  # the suffix is for type checkers
    text = re.sub(r"-> (?:registration|pinned)\.", "-> ", text)
    if len(text) <= 100:
        return text
    head, _, tail = text.rpartition(") -> ") if ") -> " in text else (text[:-1], "", "")
    lines = ",\n    ".join(split_parameters(head.partition("(")[2]))
    return f"{name}(\n    {lines},\n)" + (f" -> {tail}" if tail else "")


def split_parameters(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def attributes(cls: type) -> Iterator[str]:
    """The public fields of a class, with the strings that stand below them."""
    if not is_dataclass(cls) and not hasattr(cls, "_fields"):
        return
    if "Attributes:" in (cls.__doc__ or ""):  # they stand above
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    for index, node in enumerate(body.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            after = body.body[index + 1] if index + 1 < len(body.body) else None
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = f": {markdown(str(after.value.value))}"
            yield f"- `{node.target.id}: {ast.unparse(node.annotation)}`{text}"


def methods(cls: type) -> Iterator[str]:
    """The public methods and properties that a class defines, with the first paragraph of each docstring."""
    for name, member in vars(cls).items():
        if name.startswith("_") or name in (*getattr(cls, "_fields", ()), *INTERNAL.get(cls.__name__, ())):
            continue
        if isinstance(member, property):
            yield f"- `{name}` (property): {summary(inspect.getdoc(member.fget) or '')}".removesuffix(": ")
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = member if inspect.isfunction(member) else member.__func__
            call = re.sub(
                r"\((self|cls)(, )?", "(", signature(name, function).replace("\n    ", " ").replace(",\n", "")
            )
            yield f"- `{call.replace('( ', '(')}`: {summary(inspect.getdoc(function) or '')}".removesuffix(": ")


# --- configuration.md, errors.md


def configuration() -> str:
    lines = [
        "# Configuration\n",
        "Every setting has a default, an environment variable that overrides it, and a name for",
        "`xl.configure(name=value)`, which overrides both for the process. The environment is read once, when a",
        "setting is first needed; a value that cannot be used, and a misspelt name such as `XFERLIB_BACKED`, is a",
        "`ConfigError` that names the variable. `XFER_BACKEND` and its like, which may be another program's, draw an",
        "`XferWarning`.",
        "`xferlib info` prints what is in force and where it came from. Sizes are bytes, with units of 1024:",
        "`256MiB`, `1GiB`.\n",
        "| variable | `configure` | default | meaning |\n|---|---|---|---|",
    ]
    for setting in fields(config.Config):
        data = setting.metadata
        lines.append(
            f"| `{data['variable']}` | `{setting.name}` | {format_setting(setting, setting.default)} | {data['doc']} |"
        )
    return "\n".join(lines) + "\n"


def command_line() -> str:
    lines = [
        "# Command line\n",
        "`xferlib`, or `python -m xferlib`. `xferlib command --help` explains a command's arguments.\n",
        "| command | |\n|---|---|",
        *(f"| `xferlib {name}` | {command.help} |" for name, command in commands.COMMANDS.items()),
        "\n| exit status | |\n|---|---|",
        "| 0 | done |",
        "| 1 | a part failed: a backend of the demo, a benchmark, a line of `info`; `doctor` found a problem |",
        "| 2 | the arguments, the configuration or the choice of backend cannot be used; one line says why |",
        "| 130 | interrupted |",
        "\n## Completion\n",
        "`xferlib completion` prints a script with which the Tab key completes commands, options, backends and files.",
        "It needs `pip install '.[completion]'`. The script itself starts no Python.\n",
        "```sh",
        'eval "$(xferlib completion bash)"                  # in ~/.bashrc',
        "xferlib completion zsh > ~/.zfunc/_xferlib          # where fpath has ~/.zfunc, before compinit",
        "```",
        "\n## Output\n",
        "Tables keep to the columns of a terminal. In a pipe, each fact of `info` and `doctor` is one line; `--json`",
        "gives the same to a program. `NO_COLOR` ends colour where there is any. Progress goes to standard error.",
    ]
    return "\n".join(lines) + "\n"


def errors() -> str:
    tree = inspect.cleandoc(xl.errors.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    lines = [
        "# Errors\n",
        "All are in `xferlib.errors`. All but the warning inherit `XferError`, and each inherits the built-in error",
        "in brackets, so that `except ValueError` works too. A message is a fact, the value that caused it, and the",
        "remedy.\n",
        "```text",
        re.sub(r"(?m)(?<=\w|\)) {2,}.*$", "", tree),  # each has its sentence below, where there is room
        "```\n",
    ]
    for name, thing in vars(xl.errors).items():
        if inspect.isclass(thing):
            lines.append(f"`{name}`\n:   {markdown(inspect.getdoc(thing) or '')}\n")
    return re.sub(r"\n    (?=[├└│X ])", "\n", "\n".join(lines))


# --- backends.md


def capabilities() -> Iterator[tuple[str, Capabilities]]:
    """A column of the table for each class of each built-in backend, read from the source."""
    for name, spec in registry._BUILTIN.items():
        module = ROOT / spec.path.partition(":")[0].replace(".", "/")
        paths = sorted(module.glob("*.py")) if module.is_dir() else [module.with_suffix(".py")]
        classes = [(path, found) for path in paths for found in capabilities_in(path)]
        for path, found in classes:
            yield (f"{name}, {'CUDA' if 'cuda' in path.stem else 'CPU'}" if len(classes) > 1 else name), found


def capabilities_in(path: Path) -> Iterator[Capabilities]:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "capabilities":
            names = {"Capabilities": Capabilities, "WHY_HOST": WHY_HOST, "install_command": install_command}
            yield eval(ast.unparse(node.value), names)  # noqa: S307 - our own source, just read from this tree


def backends() -> str:
    columns = dict(capabilities())
    abilities = [each.name for each in fields(Capabilities) if each.name != "why"]
    docs = {line[3:].partition(":")[0]: line.partition("`: ")[2] for line in attributes(Capabilities)}
    lines = [
        "# Backends\n",
        installs(),
        "A backend that cannot run here says why: `xl.available_backends()` and `xferlib info --load`.\n",
        "## What each can do\n",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for ability in abilities:
        cells = ("yes" if getattr(found, ability) else "no" for found in columns.values())
        lines.append(f"| {ability.replace('_', ' ')} | {' | '.join(cells)} |")
    lines.append("")
    lines.extend(f"- **{ability.replace('_', ' ')}**: {docs[ability]}" for ability in abilities)
    lines.append("\n## Why not\n")
    for name, found in columns.items():
        missing = [ability for ability in abilities if not getattr(found, ability)]
        if missing:
            lines.append(f"**{name}**\n")
            lines.extend(f"- {ability.replace('_', ' ')}: {found.reason(ability)}." for ability in missing)
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def installs() -> str:
    lines = ["| backend | arrays | runs on | install |", "|---|---|---|---|"]
    where: dict[str, list[str]] = {}
    for column, found in capabilities():
        name, _, kind = column.partition(", ")
        where.setdefault(name, []).append(kind or ("NVIDIA GPUs" if found.streams and name != "sim" else "CPU"))
    for name, kinds in where.items():
        spec = registry._BUILTIN[name]
        places = " and ".join("NVIDIA GPUs" if kind == "CUDA" else kind for kind in kinds)
        install = "comes with xferlib" if name in ("sim", "numpy") else f"`pip install '.[{spec.extra}]'`"
        lines.append(f"| `{name}` | `{spec.array_types[0]}` | {places} | {install} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    keep({ROOT / path: lambda _, text=text: text for path, text in pages().items()})  # type: ignore[misc]
