from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec

import pytest

import xferlib as xl
from xferlib import _cli, _config
from xferlib._info import shown


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = _cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_info_names_every_backend_device_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "info")
    assert status == 0
    for name, found in xl.available_backends().items():
        assert name in out
        assert all(device in out for device in found.devices)
        assert found.is_available or (found.reason in out and found.install in out)
    assert all(setting.metadata["variable"] in out for setting in fields(_config.Config))
    assert xl.__version__ in out


def test_info_says_where_a_value_came_from(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XFERLIB_PINNED_LIMIT", "64MiB")
    monkeypatch.setenv("XFERLIB_THREADS", "3")
    monkeypatch.setattr(_config, "_config", None)
    xl.configure(threads=2)
    lines = [" ".join(line.split()) for line in run(capsys, "info")[1].splitlines()]
    assert "XFERLIB_PINNED_LIMIT 64 MiB (environment)" in lines
    assert "XFERLIB_THREADS 2 (configure())" in lines
    assert "XFERLIB_HOST_CACHE 4 GiB (default)" in lines


def test_an_unusable_variable_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XFERLIB_THREADS", "many")
    monkeypatch.setattr(_config, "_config", None)
    status, _, err = run(capsys, "info")
    assert status == 2
    assert err.startswith("xferlib: XFERLIB_THREADS='many'")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unset"), (0, "0"), (4096, "4096"), (1 << 20, "1 MiB"), (frozenset({"pageable"}), "pageable")],
)
def test_values_are_shown_as_one_would_write_them(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("arguments", [["abacus"], ["bench"], ["bench", "abacus"], ["--abacus"], []])
def test_what_is_no_command_is_refused_with_the_choices(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        _cli.main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(_cli._COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = _cli._COMMANDS[command].path.partition(":")[0]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not part of this version")
    with pytest.raises(SystemExit) as stopped:
        _cli.main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert f"usage: xferlib {command}" in capsys.readouterr().out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _cli.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in _cli._COMMANDS)


def test_python_m_xferlib_is_the_command_and_loads_no_array_library() -> None:
    code = (
        "import runpy, sys; sys.argv = ['xferlib', '--version']\n"
        "try: runpy.run_module('xferlib', run_name='__main__')\n"
        "except SystemExit as stopped: assert not stopped.code\n"
        "print(sorted({'torch', 'cupy', 'pycuda', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [f"xferlib {xl.__version__}", "[]"]


def test_cache_is_cleared(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XFERLIB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_config, "_config", None)
    from xferlib.kernels import cache

    cache.write("a" * 64, b"machine code")
    assert "1 kernel(s)" in run(capsys, "cache", "info")[1]
    assert "deleted 1 kernel(s)" in run(capsys, "cache", "clear")[1]
    assert ": 0 kernel(s)" in run(capsys, "cache", "info")[1]
