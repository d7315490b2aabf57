"""The public names of this tree against those of a release: reports what programs could no longer do.

    python tools/api_diff.py [TAG]    the last tag ``v*`` if omitted; exit status 1 if something is gone or takes less

`griffe check` alone would report every name without an underscore, in modules that no page documents, too.
"""

from __future__ import annotations

import ast
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
    table = package.members.get("_PUBLIC")  # a stub's overloads are no members, so that the package's own table is read
    tabled = ast.literal_eval(str(table.value)) if table is not None else {}
    modules = {name: module for module, names in tabled.items() for name in names}
    found: dict[str, str] = {}
    for module in PUBLIC:
        try:
            holder = package[module] if module else package
        except KeyError:
            continue
        own = [name for name, each in holder.members.items() if name[0] != "_" and not each.is_alias]
        for name in map(str, own if holder.exports is None else holder.exports):
            path = f"{holder.path}.{name}"
            defined = f"{modules[name]}.{name}" if not module and name in modules else path
            try:
                each = package[defined.partition(".")[2]]
                if not each.is_module:
                    found[path] = each.canonical_path
            except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
                found[path] = ""  # declared, and defined nowhere that can be seen
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
    for path, where in before.items():  # griffe looks at members alone
        if path.count(".") == 1 and path.partition(".")[2] not in old.members and after.get(path):
            takes = [{each.name for each in tree[name.partition(".")[2]].parameters}
                     for tree, name in ((old, where), (new, after[path]))]  # fmt: skip
            told += [f"{path}: parameter {name} was removed" for name in sorted(takes[0] - takes[1])]
    return [*dict.fromkeys([*gone, *told])]  # an alias tells what its target has told


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
