from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xferlib as xl
from tests.console import main
from tests.processes import printed
from xferlib.testing import configured, load_backend

ROOT = Path(__file__).parents[1]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_info_names_every_backend_device_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "info", "--load")
    assert status == 0
    for name, found in xl.available_backends().items():
        assert name in out
        assert all(device in out for device in found.devices)
        assert found.is_available or (found.reason in out and found.install in out)
    assert all(setting.metadata["variable"] in out for setting in fields(xl.configure()))
    assert xl.__version__ in out


def test_info_says_where_a_value_came_from(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XFERLIB_PINNED_LIMIT", "64MiB")
    monkeypatch.setenv("XFERLIB_THREADS", "3")
    with configured(os.environ, threads=2, strict=frozenset({"pageable"}), device=None):
        lines = [" ".join(line.split()) for line in run(capsys, "info")[1].splitlines()]
    for line in (
        "XFERLIB_PINNED_LIMIT 64 MiB (environment)", "XFERLIB_THREADS 2 (configure())",
        "XFERLIB_HOST_CACHE 4 GiB (default)", "XFERLIB_STRICT pageable (configure())", "XFERLIB_DEVICE unset (",
        "staging in C: ", "driver calls in C: ", "runtime ", "NVRTC ", "C compiler ", "cache ",
    ):  # fmt: skip
        assert len([each for each in lines if each.startswith(line)]) == 1, line


def test_info_goes_on_behind_what_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XFERLIB_THREADS", "many")
    monkeypatch.setenv("XFERLIB_BACKED", "sim")
    done = subprocess.run([sys.executable, "-m", "xferlib", "info"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert not done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "XFERLIB_BACKED nothing reads this variable; did you mean XFERLIB_BACKEND?" in lines
    for start in ("XFERLIB_THREADS XFERLIB_THREADS='many': expected", "XFERLIB_STRICT unset", "numpy numpy:cpu"):
        assert any(each.startswith(start) for each in lines), start
    assert lines[-1] == ""
    assert f"xferlib {xl.__version__}" in lines


def test_info_names_a_default_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with configured({"XFERLIB_BACKEND": "simm"}):
        status, out, _ = run(capsys, "info")
    assert status == 1
    assert "XFERLIB_BACKEND='simm': there is no backend 'simm' (did you mean 'sim'?)" in out
    assert "Versions" in out


def test_info_survives_a_backend_that_breaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = load_backend("numpy")
    monkeypatch.setattr(type(backend), "devices", lambda self: 1 / 0)
    status, out, _ = run(capsys, "info")
    assert status == 1
    assert re.search("numpy +division by zero", out)
    assert "Configuration" in out


def test_info_as_json_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "info")[1]
    found = json.loads(run(capsys, "info", "--json")[1])
    assert set(found) == {"backends", "configuration", "cuda on a cpu", "versions"}
    for fact in (fact for facts in found.values() for fact in facts):
        assert set(fact) == {"name", "text", "is_failure"}
        assert fact["name"] in text
        assert fact["text"] in text


@pytest.mark.parametrize(("command", "width"), [(["info"], 40), (["doctor", "--quick", "--root"], 60)])
def test_lines_keep_to_the_columns_of_a_terminal(
    command: list[str], width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*command, *([str(tmp_path)] if command[-1] == "--root" else [])]
    monkeypatch.setenv("XFERLIB_BACKED", "sim")
    monkeypatch.setenv("PATH", str(tmp_path))  # without `nvidia-smi`, whose processes come and go
    with configured(cache_dir=str(tmp_path / "cache")):  # other tests write into the usual one meanwhile
        whole = run(capsys, *arguments)[1]
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        wrapped = run(capsys, *arguments)[1]
    assert max(len(line) for line in wrapped.splitlines() if len(line.split()) > 1) <= width
    assert len(wrapped.splitlines()) > len(whole.splitlines())
    assert "".join(wrapped.split()) == "".join(whole.split())
    assert "\x1b" not in wrapped


def driver(status: int = 0, device_status: int = 0) -> Any:
    """A CUDA driver with one device, or none that starts."""

    def put(value: Any) -> Callable[..., int]:
        def answer(place: Any, *_: Any) -> int:
            getattr(place, "_obj", place).value = value
            return 0

        return answer

    return SimpleNamespace(
        cuInit=lambda _: status, cuDriverGetVersion=put(13010), cuDeviceGetCount=put(1),
        cuDeviceGet=lambda *_: device_status, cuDeviceGetName=put(b"A GPU"), cuDeviceTotalMem_v2=put(3 << 29),
        cuDeviceGetPCIBusId=lambda *_: 0, cuDeviceGetAttribute=lambda *_: 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (driver(), ["CUDA driver for CUDA 13.1", "cuda:0, A GPU, 1.5 GiB"]),
        (driver(100), ["cuInit returns error 100"]),
        (driver(device_status=101), ["cuda:0 cannot be used: cuDeviceGet returns error 101"]),
        (None, ["no CUDA driver: libcuda.so.1 is not found"]),
    ],
)
def test_info_asks_the_driver_for_its_devices(
    found: Any, said: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ctypes.CDLL

    def load(name: str) -> Any:
        if "cuda" not in name:  # xferlib's own
            return own(name)
        if found is None:
            raise OSError(name)
        return found

    monkeypatch.setattr("ctypes.CDLL", load)
    status, out, _ = run(capsys, "info")
    assert status == 0
    assert all(each in out for each in said)


@pytest.mark.parametrize(
    "arguments",
    [["trace", "{script}", "--plot", "x.png"], ["demo", "--plot", "x.png"], ["demo", "--trace", "x.png"]],
)
def test_a_picture_without_matplotlib_is_refused_before_anything_runs(
    arguments: list[str], script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = run(capsys, *(each.format(script=script) for each in arguments))
    assert status == 2
    assert not out
    given = arguments[-2]
    assert re.search(rf"{given} needs matplotlib, which is not installed: pip install .+\[{arguments[0]}\]'", err)


@pytest.mark.parametrize("arguments", [["trace", "{script}"], ["bench", "sweep"], ["bench", "transfer"], ["demo"]])
def test_a_file_without_permission_is_refused_at_once(
    arguments: list[str], script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    words = [each.format(script=script) for each in arguments]
    with pytest.raises(SystemExit):
        main([*words, "--json", str(script.with_suffix(".json"))])
    captured = capsys.readouterr()
    assert "you have no permission" in captured.err
    assert not captured.out


COMMANDS = (
    "info", "doctor", "demo", "trace", "pretend", "bench transfer", "bench sweep", "cache info", "cache clear",
    "completion",
)  # fmt: skip
REFUSED = [
    *(([], "find what makes programs fail"), (["abacus"], "there is no command"), (["bench"], "first word of several")),
    *((["bench", "abacus"], "there is no command"), (["--abacus"], "arguments are required")),
    (["cache"], "'cache' is the first word of several commands; give one of cache info, cache"),
    *(
        (typed.split(), f"there is no command {typed!r} (did you mean {meant!r}?)")
        for typed, meant in (
            ("docter", "doctor"), ("benhc", "bench"), ("bench transfr", "bench transfer"),
            ("cache clean", "cache clear"),
        )
    ),
    *(
        (["bench", name, "--json", "figures.json"],
         f"'bench {name}' is not in the installed package; run `python -m benchmarks {name}`")
        for name in ("kernels", "overlap")
    ),
    *(
        (["bench", command, *options], text)
        for command in ("transfer", "sweep")
        for options, text in (
            (["--json", "/no/such/folder/x.json"], "must be a directory"),
            (["--largest", "huge"], "'huge': expected a size such as 256MiB"),
        )
    ),
    (["demo", "--plot", "x.a"], "is not a picture: give a name that ends in .png, .svg or .pdf"),
    (["demo", "--plot", "x"], "is not a picture"),
    *(
        (["bench", "sweep", "--seconds", text], "is not a number of seconds above 0")
        for text in ("-1", "0", "inf", "nan", "soon")
    ),
    *(([*command, "--seed", "-3"], "'-3' is not a number from 0") for command in (["demo"], ["bench", "sweep"])),
    (["doctor", "--backend", "abacus"], "invalid choice: 'abacus'"),
    (["doctor", "--root", "/no/such/folder"], "there is no directory '/no/such/folder'"),
    (["trace", "missing.py"], "there is no file 'missing.py'"),
    (["trace", "{script}", "--plot", "run.txt"], "ends in .png"),
    (["trace", "{script}", "--json", "run.png"], "ends in .json"),
    (["trace"], "script"),
    (["trace", "--polt=x.png", "{script}"], "--polt is not an option (did you mean --plot?)"),
]  # fmt: skip
"""Arguments, and what is said of them."""


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_wrong_arguments_are_refused_before_anything_is_done(
    arguments: list[str],
    message: str,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(script.parent)
    before = {*script.parent.iterdir()}
    with pytest.raises(SystemExit) as stopped:
        main([each.format(script=script) for each in arguments])
    captured = capsys.readouterr()
    assert (stopped.value.code, captured.out) == (2, "")
    assert message in captured.err
    assert {*script.parent.iterdir()} == before


@pytest.mark.parametrize("command", [*COMMANDS, "bench", "cache", ""])
def test_help_names_the_command_and_those_of_its_group_within_the_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "-h" if command == "bench" else "--help"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert max(map(len, out.splitlines())) <= 60
    assert out.startswith(f"usage: xferlib {command}")
    if command not in COMMANDS:
        listed = out.partition("commands:\n")[2].partition("\n\n")[0].splitlines()
        begun = [line for line in listed if not line.startswith("   ")]
        names = [re.split(r"  +", line.strip())[0] for line in begun]
        assert names == [each for each in COMMANDS if each.startswith(command)]


@pytest.mark.parametrize("name", ["cpu", "exact", "kernels", "overlap"])
def test_a_benchmark_of_a_checkout_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = pytest.importorskip(f"benchmarks.{name}", reason="the project is not beside the tests")
    with pytest.raises(SystemExit) as stopped:
        module.main(["--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks {name}")


@pytest.mark.parametrize("arguments", [["--version"], ["info"], ["doctor", "--quick", "--json"]])
def test_python_m_xferlib_is_the_command_and_loads_no_array_library(arguments: list[str]) -> None:
    code = (
        f"import runpy, sys; sys.argv = ['xferlib', *{arguments}]\n"
        "try: runpy.run_module('xferlib', run_name='__main__')\n"
        "except SystemExit as stopped: assert '--version' not in sys.argv or not stopped.code\n"
        "loaded = {'torch', 'cupy', 'pycuda', 'matplotlib', 'xferlib.sim'} & set(sys.modules)\n"
        "print(sorted(loaded - {'xferlib.sim'} if 'doctor' in sys.argv else loaded))"
    )
    lines = printed("-c", code).splitlines()
    assert lines[-1] == "[]"
    assert arguments != ["--version"] or lines == [f"xferlib {xl.__version__}", "[]"]


def test_cache_is_cleared(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    from xferlib.kernels import code_cache as cache

    with configured({"XFERLIB_CACHE_DIR": str(tmp_path)}):
        cache.write("a" * 64, b"machine code")
        assert "1 kernel(s)" in run(capsys, "cache", "info")[1]
        assert "deleted 1 kernel(s)" in run(capsys, "cache", "clear")[1]
        assert ": 0 kernel(s)" in run(capsys, "cache", "info")[1]


SCRIPT = """\
import sys
import numpy as np
import helper
import xferlib as xl

print(sys.argv[1:], __name__)
xl.to_device(np.ones(helper.COUNT), backend="sim")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("COUNT = 1000\n")
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return path


def test_trace_runs_a_script_as_python_would(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    picture, file = script.with_suffix(".png"), script.with_suffix(".json")
    before = sys.argv, sys.path[:]
    options = ["--plot", str(picture), "--epochs", "3", "--json", str(file), "--", "--plot", "mine"]
    status, out, err = run(capsys, "trace", str(script), "a", *options)
    assert status == 0
    assert out == "['a', '--epochs', '3', '--plot', 'mine'] __main__\n"
    assert err.splitlines()[-1].startswith("overlap 0%")
    assert "H2D" in err
    copies = [each for each in json.loads(file.read_text())["traceEvents"] if each.get("cat") == "h2d"]
    sources = [each["args"]["source"] for each in copies]  # other tests' simulated copies may end in this trace
    assert [each for each in sources if each.startswith(str(script))] == [f"{script}:7 in <module>"]
    assert picture.stat().st_size > 1000
    assert (sys.argv, sys.path) == before


BROKEN = [("x = (\n", "'(' was never closed"), ("\x00", "null byte")]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_an_error_before_the_first_line_of_a_script_is_shown(
    text: str, message: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(text)
    status, _, err = run(capsys, "trace", str(script))
    assert status == 1
    assert message in err
    assert "runpy" not in err


@pytest.mark.parametrize(
    ("line", "expected", "message"),
    [
        ("sys.exit()", 0, "overlap"),
        ("sys.exit(5)", 5, "overlap"),
        ("sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
    ],
)
def test_trace_ends_as_the_script_does(
    line: str, expected: int, message: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(SCRIPT + line + "\n")
    file = script.with_suffix(".json")
    status, _, err = run(capsys, "trace", str(script), "--json", str(file))
    assert status == expected
    assert message in err
    assert "runpy" not in err
    assert file.exists()
    assert "H2D" in err
