"""The namespace of CuPy's arrays: NumPy's order of arguments, and the arguments that the Array API adds."""

from __future__ import annotations

import json
import pickle
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.processes import printed

ROOT = Path(__file__).parents[1]


def run(program: str) -> str:
    """Return what a program prints whose ``xp`` is the namespace over NumPy's functions by CuPy's names."""
    head = "import numpy as np\nfrom tests.cupy_double import Device, install\n"
    head += "xp, x = install(), np.arange(12.0).reshape(3, 4)\n"
    return printed("-c", head + textwrap.dedent(program), cwd=ROOT)


CALLS = {
    "xp.zeros(3, 'float32').dtype": "float32",
    "xp.arange(0, 3, 1, 'float32')": "[0. 1. 2.]",
    "xp.arange(5, 0, -1.5, 'uint8').tolist(), xp.arange(2, dtype=bool).tolist()": "([5, 3, 1, 255], [False, True])",
    "xp.std(x, 0).shape": "(4,)",
    "float(xp.std(x, correction=1)) == float(np.std(x, ddof=1))": "True",
    "xp.sort(np.asarray([3, 1, 2]), descending=True)": "[3 2 1]",
    "xp.argsort(np.asarray([1, 3, 1, 2, 3]), descending=True)": "[1 4 3 0 2]",
    "xp.argsort(np.asarray([[1, 3], [3, 1]]), 0, descending=True).tolist()": "[[1, 0], [0, 1]]",
    "xp.argsort(np.asarray(5), descending=True)": "0",
    "xp.clip(x, 2, 5)[0]": "[2. 2. 2. 3.]",
    "xp.clip(x, a_max=1)[0]": "[0. 1. 1. 1.]",
    "xp.isin(3, x), xp.isin(x, 3).sum()": "(array(True), np.int64(1))",
    "xp.searchsorted(np.arange(4), 2)": "2",
    "xp.take_along_axis(x, np.asarray([[1], [2], [0]])).ravel()": "[1. 6. 8.]",
    "len(xp.unstack(x)), xp.unstack(x, axis=1)[1].tolist()": "(3, [1.0, 5.0, 9.0])",
    "xp.vecdot(x, x)": "[ 14. 126. 366.]",
    "xp.count_nonzero(x, 0, keepdims=True)": "[[2 3 3 3]]",
    "xp.linalg.svd(x).S.shape, len(xp.linalg.svd(x, False))": "((3,), 3)",
    "[int(xp.linalg.matrix_rank(x, **given)) for given in ({}, {'tol': 3.0}, {'rtol': 0.5})]": "[2, 1, 1]",
    "xp.linalg.pinv(x).shape, xp.linalg.pinv(x, 1e-3).shape": "((4, 3), (4, 3))",
    "xp.linalg.qr(x).Q.shape, xp.linalg.qr(x, 'r').shape": "((3, 3), (3, 4))",
    "xp.linalg.cholesky(4 * np.eye(2), upper=True).tolist()": "[[2.0, 0.0], [0.0, 2.0]]",
    "xp.linalg.eigh(np.eye(2)).eigenvalues, xp.linalg.slogdet(np.eye(2)).sign": "(array([1., 1.]), np.float64(1.0))",
    "xp.fft.fftfreq(4, dtype='float32').dtype, xp.fft.fft is np.fft.fft": "(dtype('float32'), True)",
    "x[xp.newaxis].shape": "(1, 3, 4)",
    "xp.reshape(x, (4, 3), copy=True).base is None, xp.reshape(x, 12).base is None": "(True, False)",
    "xp.__array_namespace_info__().default_dtypes()['integral']": "int64",
    "xp.sin is np.sin, xp.linalg.norm is np.linalg.norm": "(True, True)",
}
"""The text that each expression prints."""


def test_functions_take_numpys_arguments_and_the_standards() -> None:
    program = f"import json\nprint(json.dumps({{call: str(eval(call)) for call in {list(CALLS)!r}}}))"
    assert json.loads(run(program)) == CALLS


def test_devices_are_named_in_any_way_and_what_cannot_be_had_is_refused() -> None:
    said = run("""
        import pickle
        import xferlib as xl
        from xferlib.errors import DeviceNotFoundError

        assert pickle.loads(pickle.dumps(xp)) is xp
        assert {"zeros", "sin", "linalg", "fft", "unstack", "cuda"} <= set(dir(xp))
        assert {"vector_norm", "norm"} <= set(dir(xp.linalg)) and "fftfreq" in dir(xp.fft)
        for device in (1, "cuda:1", "cupy:cuda:1", Device(1)):
            xp.zeros(3, device=device)
        assert Device.entered == [1] * 4, Device.entered
        xp.ones(3, device="cuda"), xp.full(3, 1), xp.eye(2, device=0)
        assert Device.entered == [1] * 4
        for device in ("cuda:7", "cpu", 2, -1, True, "torch:cuda:0"):
            try:
                xp.linspace(0, 1, 3, device=device)
            except DeviceNotFoundError as error:
                print(error)
        for call in (
            lambda: xp.reshape(x.T, 12, copy=False), lambda: xp.unstack(np.asarray(1)),
            lambda: xp.sort(x, order="a"), lambda: xp.nothing,
        ):
            try:
                call()
            except (ValueError, AttributeError) as error:
                print(error)
    """).splitlines()
    assert len(said) == 6 + 4
    assert said[0] == "device='cuda:7' is not a device of CuPy here; give 'cuda:0', 0 or x.device"
    assert "leave copy out" in said[6]
    assert "no attribute 'nothing'" in said[9]


def test_functions_are_pickled_by_name_those_of_array_api_compat_too() -> None:
    run("""
        import inspect, pickle

        names = [(part, name) for part in (xp, xp.linalg, xp.fft) for name in dir(part)]
        own = [getattr(part, name) for part, name in names if inspect.isfunction(getattr(part, name))]
        found = [each for each in own if each.__module__.startswith(("xferlib", "array_api_compat"))]
        assert {xp.linalg.matmul, xp.vecdot} <= set(found)
        assert all(pickle.loads(pickle.dumps(each)) is each for each in found)
    """)


def test_functions_of_the_namespace_work_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    import xferlib as xl

    x = cupy.arange(12.0).reshape(3, 4)
    xp = xl.get_array_module(x)
    assert pickle.loads(pickle.dumps(xp)) is xp
    assert xp.ElementwiseKernel is cupy.ElementwiseKernel
    for made in (
        xp.zeros(3, device=0),
        xp.asarray(np.ones(3), device="cuda:0"),
        xp.astype(x, "float32", device=x.device),
    ):
        assert isinstance(made, cupy.ndarray)
    assert xp.asarray(x, copy=False).data.ptr == x.data.ptr != xp.asarray(x, copy=True).data.ptr
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(np.ones(3), copy=False)
    assert xp.from_dlpack(x, copy=True).data.ptr != x.data.ptr == xp.from_dlpack(x).data.ptr
    assert xp.linalg.vector_norm(x).item() == pytest.approx(np.linalg.norm(np.arange(12.0)))
    assert xp.sort(x, axis=1, descending=True)[0].tolist() == [3, 2, 1, 0]
    for args in ((-3, 2.5, 2), (300, 310), (0, -3, -1), (0, 600, 300)):
        with pytest.raises(OverflowError):
            xp.arange(*args, dtype="uint8")
