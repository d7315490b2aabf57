"""The version of the package, and the command that installs what it needs for more.

At the tag of a release the version is `RELEASE`; between releases it names the commit: ``0.1.0.dev12+gabc1234`` is the
twelfth commit on the way to 0.1.0. The build writes it into wheels (``version.txt``) and source archives
(``PKG-INFO``); in a clone it is made here of the commit's name alone, without git.
"""

RELEASE = "0.1.0"
"""The release that the next tag makes."""


def _find_version() -> str:
    folder = __file__.replace("\\", "/").rpartition("/")[0]
    clone = folder.rsplit("/", 2)[0]
    if version := _read(f"{folder}/version.txt"):
        return version
    for line in _read(f"{clone}/PKG-INFO").splitlines():
        if line.startswith("Version: "):
            return line.removeprefix("Version: ")
    commit = _read_commit(f"{clone}/.git")
    return f"{RELEASE}.dev0+g{commit[:7]}" if commit else RELEASE


def _read_commit(git: str) -> str:
    """The commit of a clone, or of a worktree, whose ``.git`` is a file that names the folder; empty if unknown."""
    git = _read(git).removeprefix("gitdir: ") or git
    head = _read(f"{git}/HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = f"{git}/{_read(f'{git}/commondir')}"
    packed = (line.split() for line in _read(f"{common}/packed-refs").splitlines())
    return _read(f"{common}/{name}") or next((line[0] for line in packed if line[1:] == [name]), "")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


__version__ = _find_version()

_CPU_WHEELS = "--extra-index-url https://download.pytorch.org/whl/cpu "
"""PyTorch's own index of builds without CUDA, as its page of installing names it."""


def install_command(extra: str = "", *, cpu_torch: bool = False) -> str:
    """Return a line for a shell that installs an extra of the xferlib that is running: from where that came.

    Args:
        extra: Its name; empty for xferlib itself.
        cpu_torch: Take PyTorch without CUDA, which pip by itself does on other systems than Linux.
    """
    import sys

    options = _CPU_WHEELS if cpu_torch and sys.platform == "linux" else ""
    return f"pip install {options}{' '.join(map(_quote, _list_pip_arguments(extra)))}"


def _quote(text: str) -> str:
    import os
    import shlex

    return text if text == "-e" else f'"{text}"' if os.name == "nt" else shlex.quote(text)


def _list_pip_arguments(extra: str) -> list[str]:
    """The arguments of ``pip install``."""
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    suffix = f"[{extra}]" if extra else ""
    try:
        distribution = metadata.distribution("xferlib")
        found = json.loads(distribution.read_text("direct_url.json") or "{}")
        url, folder = str(found.get("url", "")), str(found.get("subdirectory", ""))
    except (metadata.PackageNotFoundError, ValueError, OSError, AttributeError):  # none, or none that can be read
        distribution, found, url, folder = None, {}, "", ""
    if url.startswith("file:"):
        parts = urlsplit(url)
        path = Path(url2pathname(f"//{parts.netloc}{parts.path}" if parts.netloc else parts.path)) / folder
        if path.is_absolute() and path.exists():
            return [*(["-e"] if found.get("dir_info", {}).get("editable") else []), f"{path}{suffix}"]
    elif url:
        control = found.get("vcs_info")
        place = f"{control['vcs']}+{url}@{control['commit_id']}" if control else url
        return [f"xferlib{suffix} @ {place}{f'#subdirectory={folder}' if folder else ''}"]
    clone = Path(__file__).resolve().parents[2]
    if (clone / "pyproject.toml").is_file() and (clone / "xferlib").is_dir():  # used where it lies
        return [f"{clone}{suffix}"]
    needs = [*dict.fromkeys(_requirements(distribution.requires or [], extra))] if distribution is not None else []
    return needs or [f"xferlib{suffix}"]  # from an index that has it


def _requirements(lines: list[str], extra: str) -> list[str]:
    """The packages that an extra brings, by the metadata: those work without the place that xferlib is from."""
    import re

    found = []
    for line in lines:
        package, _, marker = (part.strip() for part in line.partition(";"))
        if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker) is None:
            continue
        own = re.fullmatch(r"xferlib\s*\[(.*)\]", package)
        inner = [_requirements(lines, each.strip()) for each in own[1].split(",")] if own is not None else [[package]]
        found += [each for part in inner for each in part]
    return found
