"""The public names of this tree against those of a release: reports what programs could no longer do.

    python tools/api_diff.py [TAG]    the last tag ``v*`` if omitted; exit status 1 if something is gone or takes less

`griffe check` alone would report every name without an underscore, in modules that no page documents, too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = ("", "errors", "tree", "backends.base", "kernels", "random", "sim", "testing")
"""The documented modules, below the package."""


def last_release() -> str:
    """The last tag of a release; empty before the first one."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def public_names(package: Any) -> dict[str, str]:
    """By public path, where a name is defined."""
    found: dict[str, str] = {}
    for module in PUBLIC:
        try:
            holder = package[module] if module else package
        except KeyError:
            continue
        names = holder.exports if holder.exports is not None else [each for each in holder.members if each[0] != "_"]
        for name in map(str, names):
            try:
                if not holder[name].is_module:
                    found[f"{holder.path}.{name}"] = holder[name].canonical_path
            except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
                found[f"{holder.path}.{name}"] = ""  # declared, and defined nowhere that can be seen
    return found


def breakages(old: Any, new: Any) -> list[str]:
    """One line for each public name that is gone, and for each that takes or gives less."""
    before, after = public_names(old), public_names(new)
    gone = [f"{path}: removed" for path, where in before.items() if path not in after or (where and not after[path])]
    defined = {where for where in before.values() if where}
    told = []
    for each in griffe.find_breaking_changes(old, new):
        path = each.obj.canonical_path
        if any(path == where or path.startswith(f"{where}.") for where in defined):
            told.append(f"{path}: {each.kind.value}: {each.old_value} -> {each.new_value}")
    return [*gone, *told]


def main() -> int:
    against = sys.argv[1] if len(sys.argv) > 1 else last_release()
    if not against:
        print("no release to compare with yet")
        return 0
    new = griffe.load("xferlib", search_paths=[ROOT], resolve_aliases=True)
    old = griffe.load_git("xferlib", ref=against, repo=ROOT, resolve_aliases=True)
    found = breakages(old, new)
    for each in found:
        print(each)
    print(f"{len(found)} breaking changes since {against}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
