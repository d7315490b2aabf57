"""Compile the C files for the systems that no machine at hand has: Windows, macOS on arm64, Linux on aarch64.

    python tools/check_cross.py [--wine] [--qemu]

The cross compiler is Zig's, from the package ``ziglang``; without it this says so and passes. The flags are those of an
installation, but for the optimisation, which clang's warnings do not wait for, and a warning is an error. ``--wine``
also runs tools/staging_stress.c for Windows, by Wine: transfers of several threads, their bytes compared. ``--qemu``
runs tools/emulator_stress.c for aarch64, by QEMU: CUDA C of several threads, compiled by ``aarch64-linux-gnu-gcc``
where that is installed, since compilers differ in the registers that they use around a change of stacks. Nothing else
of what is compiled here is run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from xferlib._native import build  # noqa: E402 - of this tree, whatever is installed

TARGETS = {"x86_64-windows-gnu": "win32", "aarch64-macos": "darwin", "aarch64-linux-gnu": "linux"}
PYCONFIG_OF_WINDOWS = """
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define HAVE_DECLSPEC_DLL
#define HAVE_PY_SSIZE_T 1
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_TIME_T 8
#define SIZEOF_PID_T 4
#define ALIGNOF_MAX_ALIGN_T 8
typedef long long Py_ssize_t;
"""
"""In place of the installed file, which is that of this machine."""


def headers(system: str, folder: Path) -> Path:
    """The CPython headers for a system, in ``folder`` where they differ from those of this machine."""
    installed = Path(sysconfig.get_paths()["include"])
    if system != "win32":
        return installed
    found = folder / "include"
    shutil.copytree(installed, found)
    (found / "pyconfig.h").unlink()
    (found / "pyconfig.h").write_text(PYCONFIG_OF_WINDOWS)
    return found


def compiled(target: str, source: str) -> str:
    """Compile a library for a target; returns what the compiler says, nothing if it is content.

    On Windows an extension module is compiled and not linked: that takes CPython's own import library.
    """
    system = TARGETS[target]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stamp = folder / "stamp.c"
        stamp.write_text(build.write_fingerprint_source(0, system))
        include = headers(system, folder) if source in build.EXTENSIONS else None
        files = build.parts(build.FOLDER, source)
        # Without optimisation Zig would watch for undefined behaviour.
        flags = ["-O0" if flag == "-O3" else flag for flag in build.flags(system, include)]
        flags += ["-fno-sanitize=undefined", "-Werror"]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target]
        if include is not None and system == "win32":
            flags = [flag for flag in flags if flag not in ("-shared", "-static")]
            runs = [[*command, *flags, "-c", str(file), "-o", str(folder / "part.o")] for file in files]
        else:
            runs = [[*command, *flags, *map(str, files), str(stamp), "-o", str(folder / "library")]]
        for run in runs:
            done = subprocess.run(run, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.stderr
    return ""


def stressed_by_wine() -> int:
    """Run the staging of Windows on this machine; 1 if it fails."""
    wine = shutil.which("wine64") or shutil.which("wine64", path="/usr/lib/wine")
    if wine is None:
        print("no wine64: not run")
        return 0
    with tempfile.TemporaryDirectory() as name:
        program = Path(name, "stress.exe")
        sources = ["tools/staging_stress.c", *map(str, build.parts(build.FOLDER, "staging.c"))]
        flags = [flag for flag in build.flags("win32") if flag not in ("-shared", "-fvisibility=hidden")]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", *flags, "-o", str(program)]
        subprocess.run([*command, *sources], cwd=ROOT, check=True)
        environ = {**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": str(Path(name, "wine"))}
        done = subprocess.run([wine, str(program)], env=environ, check=False)
    print(f"transfers of several threads on Windows, by Wine: {'failed' if done.returncode else 'right'}")
    return int(done.returncode != 0)


def emulated_by_qemu() -> int:
    """Run CUDA C on an aarch64 that QEMU plays; 1 if it fails."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        print("no qemu-aarch64 (apt-get install qemu-user): not run")
        return 0
    gcc = shutil.which("aarch64-linux-gnu-gcc")
    compiler = [gcc] if gcc else [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    folder = build.FOLDER / "emulator"
    kernels = str(ROOT / "tests" / "kernels" / "cuda_cpu" / "runtime_kernels.c")
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        compiled, program = str(Path(name, "kernels.o")), str(Path(name, "stress"))
        for options in ([], ["-DCHECKED"]):
            plain = ["-O1", "-fno-strict-aliasing", "-w", f"-I{folder}", *options]
            subprocess.run([*compiler, *plain, "-c", kernels, "-o", compiled], check=True)
            flags = ["-std=c11", "-O3", "-ffp-contract=off", "-static", "-pthread", *options]
            sources = ["tools/emulator_stress.c", *map(str, build.parts(build.FOLDER, "emulator.c"))]
            subprocess.run([*compiler, *flags, *sources, compiled, "-lm", "-o", program], cwd=ROOT, check=True)
            failed += subprocess.run([qemu, program], check=False).returncode != 0
    print(f"CUDA C on aarch64, by {Path(compiler[0]).name} and QEMU: {'failed' if failed else 'right'}")
    return min(failed, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wine", action="store_true", help="also run staging for Windows")
    parser.add_argument("--qemu", action="store_true", help="also run CUDA C for aarch64")
    given = parser.parse_args()
    if importlib.util.find_spec("ziglang") is None:
        print("no cross compiler (pip install ziglang): not checked for Windows, macOS and aarch64")
        return 0
    cases = [
        (target, source)
        for target, system in TARGETS.items()
        for source in build.FOLDERS
        if system != "win32" or source not in build.POSIX_ONLY
    ]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda case: compiled(*case), cases))
    for (target, source), problem in zip(cases, results, strict=True):
        print(f"{target}: {source}: {problem or 'compiled, not run'}")
    failed = any(results)
    if given.wine:
        failed |= bool(stressed_by_wine())
    if given.qemu:
        failed |= bool(emulated_by_qemu())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
