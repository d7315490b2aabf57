"""The version of the package, and the command that installs what it needs for more."""

__version__ = "0.1.0"

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
