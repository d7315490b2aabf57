"""Check the C files: no warning of a strict compiler, and no error of the sanitizers over random cases, over transfers
and CUDA C of several threads.

    python tools/check_native.py [--cases 1000] [--warnings] [--deep]
    python tools/check_native.py --tests tests/kernels/test_reductions.py ...

``--warnings`` compiles only. ``--deep`` lets the analyzer follow each path through every call, in all files and in
each copy of a body that is compiled for several kinds of vectors.
``--tests`` runs tests with all memory of Python and NumPy watched, in C and in compiled kernels: what these are given
the address of, they may only use while it is theirs.
Without a C compiler, or without its sanitizers, it says so and passes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "xferlib" / "_native"
STAGING = sorted(str(path) for path in (NATIVE / "staging").glob("*.c"))
EMULATOR = sorted(str(path) for path in (NATIVE / "emulator").glob("*.c"))
KERNELS = str(ROOT / "tests" / "kernels" / "cuda_cpu" / "runtime_kernels.c")
KERNEL_FLAGS = ["-O1", "-fno-strict-aliasing", "-w", "-fPIC", f"-I{NATIVE / 'emulator'}"]
COMMON = ["-std=c11", "-pthread", "-fPIC", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off"]
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZED = ["-O1", "-g1", "-fvisibility=hidden", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
CASES = 1000

SUMMARISED = frozenset({"random.c", "simulator.c", "strided.c"})
"""Files of many paths, where the analyzer looks at each call once; with ``--deep`` it follows every path."""


def run(*command: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command, its output kept."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def warnings(compiler: str, *, is_deep: bool) -> int:
    """Compile every file strictly, and with the analyzer where the compiler has one; returns how many runs fail."""
    include = ["-isystem", sysconfig.get_paths()["include"]]
    has_analyzer = run(compiler, "-fanalyzer", "-E", "-x", "c", os.devnull).returncode == 0
    analyzed = ["-O1", *["-fanalyzer"] * has_analyzer, *["-DXF_ANALYZED"] * (not is_deep)]

    # Most of a minute would go into the paths through the walks of strided.c, which call each other, and seven seconds
    # into those of random.c or of simulator.c. They call no `malloc`: there a call is analysed once, not for each path.
    summaries = ["-fanalyzer-call-summaries"] * (has_analyzer and not is_deep)

    def find_problem(case: tuple[str, list[str]]) -> str:
        source, extra = case
        if Path(source).name in SUMMARISED and extra is analyzed:
            extra = [*extra, *summaries]
        if source.endswith(".h"):  # as a file of C, each function as if it were called
            extra = [*extra, *["-fkeep-inline-functions"] * has_analyzer, "-x", "c"]
        done = run(compiler, *COMMON, *STRICT, *extra, *include, "-c", "-o", os.devnull, str(NATIVE / source))
        return f"{source}: {done.stderr}" if done.returncode else ""

    files = [*NATIVE.glob("[a-z]*/**/*.c"), NATIVE / "emulator" / "instructions.h"]
    sources = sorted((str(path.relative_to(NATIVE)) for path in files), reverse=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(find_problem, itertools.product(sources, (analyzed, ["-O2"]))))
    print(*filter(None, problems), sep="\n", end="")
    return sum(map(bool, problems))


def find_runtimes(compiler: str, *names: str) -> str:
    """The sanitizer's libraries of these names, as ``LD_PRELOAD`` takes them; empty, and said, if one is missing."""
    found = [run(compiler, f"-print-file-name={name}").stdout.strip() for name in names]
    if all(Path(each).is_absolute() for each in found):
        return ":".join(found)
    print("no sanitizers beside this compiler: not run")
    return ""


def compare_with_numpy(compiler: str, cases: int, flags: list[str], objects: list[str], folder: Path) -> int:
    """Hold the staging's objects with these sanitizers, as a library, against NumPy; 1 if it fails."""
    runtimes = find_runtimes(compiler, "libasan.so", "libubsan.so")
    if not runtimes:
        return 0
    stamp, library = folder / "stamp.c", folder / "staging.so"
    code = "from xferlib import _native; print(_native.checksum())"
    number = run(sys.executable, "-c", code).stdout.strip()
    stamp.write_text(f'__attribute__((visibility("default"))) const unsigned int xf_fingerprint = {number}u;\n')
    done = run(compiler, "-shared", *flags, "-o", str(library), *objects, str(stamp))
    if done.returncode == 0:
        done = run(
            sys.executable, "tools/strided_cases.py", "--library", str(library), "--cases", str(cases),
            LD_PRELOAD=runtimes, ASAN_OPTIONS="detect_leaks=0",
        )  # fmt: skip
    print((done.stdout + done.stderr).strip())
    return int(done.returncode != 0)


def watch_tests(compiler: str, arguments: list[str]) -> int:
    """Run tests by a copy whose C parts and kernels have the address sanitizer; 1 unless all is well and some ran."""
    runtimes = find_runtimes(compiler, "libasan.so", "libstdc++.so")
    if not runtimes:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        tree, reports = Path(folder, "tree"), Path(folder, "report")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.so", "site", "docs"))
        emulator, build = tree / "xferlib" / "_native" / "emulator.so", (sys.executable, "-m", "xferlib._native.build")
        instrumented = f"{compiler} -fsanitize=address -fsanitize-recover=address -fno-omit-frame-pointer -O1 -g"
        settings = {"PYTHONPATH": str(tree), "XFERLIB_CACHE_DIR": str(Path(folder, "cache"))}
        run(*build, cwd=tree, **settings)
        plain = emulator.read_bytes()  # it has stacks of its own, which the sanitizer does not know
        done = run(*build, cwd=tree, **settings, CC=instrumented)
        emulator.write_bytes(plain)
        options = "detect_leaks=0:halt_on_error=0:handle_segv=0:allocator_may_return_null=1:verify_asan_link_order=0"
        settings |= {
            "CC": instrumented, "LD_PRELOAD": runtimes, "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": f"{options}:log_path={reports}",
        }  # fmt: skip
        look = "from xferlib.testing import native; print(native().is_on)"
        if done.returncode or "True" not in run(sys.executable, "-c", look, cwd=tree, **settings).stdout:
            print(done.stderr, "the C parts with the sanitizer do not load")
            return 1
        done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, cwd=tree, **settings)
        print(done.stdout[-2000:], done.stderr[-2000:])
        found = sorted(Path(folder).glob("report.*"))
        print(*(each.read_text() for each in found), sep="\n")
    return int(bool(found) or done.returncode != 0 or " passed" not in done.stdout)


def find_faults(compiler: str, kind: str, cases: int) -> int:
    """Run transfers, and CUDA C, from several threads under a sanitizer; 1 if it finds a fault.

    With that of addresses and undefined behaviour, also random cases of gathering and converting.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "empty.c"
        empty.write_text("int main(void) { return 0; }\n")
        flags = [*COMMON, *SANITIZED, f"-fsanitize={kind}"]
        rounds = ["-DFEW_ROUNDS"] if cases <= CASES else []
        if run(compiler, *flags, str(empty), "-o", str(folder / "empty")).returncode:
            print(f"no {kind} sanitizer beside this compiler: not run")
            return 0
        build = [compiler, *flags, "-Werror"]
        objects = {}
        for library, sources in (("staging", STAGING), ("emulator", EMULATOR)):
            (folder / library).mkdir()
            done = run(*build, "-c", *sources, cwd=folder / library)
            if done.returncode:
                return report(f"{library}, {kind}", done)
            objects[library] = [str(path) for path in (folder / library).iterdir()]
        done = build_and_run([*build, *rounds], "staging_stress.c", objects["staging"], folder)
        failed = report(f"transfers, {kind}", done)
        if "address" in kind:
            failed += compare_with_numpy(compiler, cases, flags, objects["staging"], folder)
        for name, options in (("unchecked", []), ("checked", ["-DCHECKED"])):
            # Kernels are never compiled with a sanitizer: a wild pointer is a fault that the runtime reports.
            kernels = str(folder / f"{name}.o")
            done = run(compiler, *KERNEL_FLAGS, *options, "-c", KERNELS, "-o", kernels)
            if done.returncode == 0:
                done = build_and_run([*build, *options], "emulator_stress.c", [*objects["emulator"], kernels], folder)
            failed += report(f"CUDA C on a CPU, {name}, {kind}", done)
    return failed


def build_and_run(build: list[str], main: str, sources: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile a program of this folder with other sources, and run it."""
    program = str(folder / Path(main).stem)
    done = run(*build, str(ROOT / "tools" / main), *sources, "-lm", "-o", program)
    aslr_off = ["setarch", "-R"] if shutil.which("setarch") else []  # some kernels map what the sanitizer wants itself
    return done if done.returncode else run(*aslr_off, program)


def report(what: str, done: subprocess.CompletedProcess[str]) -> int:
    """Print the outcome of a program; 1 if it failed."""
    print(f"{what}: {f'{done.stdout}{done.stderr}' if done.returncode else 'nothing found'}")
    return int(done.returncode != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=CASES, help="random cases; with more, more transfers too")
    parser.add_argument("--warnings", action="store_true", help="compile only")
    parser.add_argument("--deep", action="store_true", help="let the analyzer follow each path through every call")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, help="of pytest: run these tests under a sanitizer")
    given = parser.parse_args()
    compiler = shutil.which(os.environ.get("CC", "")) or shutil.which("cc")
    if compiler is None:
        print("no C compiler: not checked")
        return 0
    if given.tests:
        return watch_tests(compiler, given.tests)
    with ThreadPoolExecutor() as pool:
        parts = [pool.submit(warnings, compiler, is_deep=given.deep)]
        if not given.warnings:
            parts += [pool.submit(find_faults, compiler, kind, given.cases) for kind in ("thread", "address,undefined")]
    return min(sum(part.result() for part in parts), 1)


if __name__ == "__main__":
    sys.exit(main())
