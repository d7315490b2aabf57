"""Plans: what each form is moved by, that they are kept, and how many threads copy between host arrays."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib._core import thresholds
from xferlib._transfer import plan
from xferlib.testing import THRESHOLDS, configured

F4, F8, F2 = (np.dtype(name) for name in ("float32", "float64", "float16"))
MIB = 1 << 20


def means(**changed: Any) -> plan.Means:
    """Of a GPU, but for what is changed; cut as where nothing stages in C, which needs no compiled part."""
    budget: Any = (4, 6, 4, 2)
    return plan.Means(True, True, True, True, False, budget, MIB)._replace(**changed)


def compiled(x: np.ndarray[Any, Any], wanted: np.dtype[Any] = F4, **facts: Any) -> plan.Plan:
    order = ("is_upload", "is_blocking", "may_permute", "may_cast", "memory", "forced")
    values: dict[str, Any] = dict.fromkeys(order[:4], True) | {"memory": "pageable", "forced": None} | facts
    given = values.pop("means", means())
    return plan.compile_plan(x.shape, x.strides, x.dtype, wanted, given, *(values[name] for name in order))


def zeros(nbytes: int, dtype: np.dtype[Any] = F4) -> np.ndarray[Any, Any]:
    """Pages that are never touched, and take no memory."""
    return np.zeros((nbytes // dtype.itemsize // 64, 64), dtype)


@pytest.mark.parametrize(
    ("x", "facts", "path"),
    [
        (zeros(0), {}, "empty"),
        (zeros(4096), {}, "small"),
        (zeros(4096), {"memory": "pinned"}, "small"),
        (zeros(4096), {"means": means(small_at_once=False), "memory": "pinned"}, "pinned"),
        (zeros(4096), {"means": means(small_at_once=False), "is_blocking": False}, "staged"),
        (zeros(8 * MIB), {}, "staged"),
        (zeros(8 * MIB), {"memory": "pinned"}, "pinned"),
        (zeros(8 * MIB), {"memory": "pinned", "forced": plan.TransferPath.STAGED}, "staged"),
        (zeros(MIB)[::2], {}, "small"),
        (zeros(MIB)[::2], {"is_blocking": False}, "staged"),
        (zeros(8 * MIB)[::2], {}, "staged"),
        (zeros(8 * MIB).T, {}, "permuted"),
        (zeros(8 * MIB).T, {"may_permute": False}, "staged"),
        (zeros(8 * MIB).T, {"means": means(kernels=False)}, "staged"),
    ],
)
def test_the_facts_alone_decide_the_path(x: np.ndarray[Any, Any], facts: dict[str, Any], path: str) -> None:
    for is_upload in (True, False):
        found = compiled(x, is_upload=is_upload, **facts)
        if path == "small" and x.nbytes > THRESHOLDS.small_nbytes and not is_upload:
            continue  # one thread scatters in C alone
        assert found.path == path
        assert found.nbytes == x.nbytes
        assert found is compiled(x, is_upload=is_upload, **facts)  # it is kept


@pytest.mark.parametrize(
    ("given", "wanted", "facts", "where", "crosses"),
    [
        (F4, F4, {}, "nowhere", F4),
        (F4, F8, {}, "on the device", F4),
        (F8, F4, {}, "on the host", F4),
        (F8, F4, {"memory": "pinned"}, "on the device", F8),
        (F4, F8, {"may_cast": False}, "on the host", F8),
        (F4, F8, {"means": means(is_cuda=False)}, "on the host", F8),
        (F2, F4, {"is_upload": False}, "on the device", F2),
        (F4, F2, {"is_upload": False}, "on the host", F2),
        (F4, F2, {"is_upload": False, "memory": "pooled"}, "on the device", F4),
    ],
)
def test_a_conversion_is_where_fewer_bytes_travel_or_the_host_need_not_work(
    given: np.dtype[Any], wanted: np.dtype[Any], facts: dict[str, Any], where: str, crosses: np.dtype[Any]
) -> None:
    found = compiled(zeros(8 * MIB, given), wanted, **facts)
    assert found.conversion == where
    assert found.nbytes == 8 * MIB // given.itemsize * crosses.itemsize
    assert f"converted {where}" in str(found)


@pytest.mark.parametrize(
    ("is_upload", "mib", "where", "path"),
    [
        (True, 2, "on the host", "staged"),
        (True, 8, "on the device", "permuted"),
        (False, 2, "on the device", "permuted"),
        (False, 8, "on the device", "permuted"),
    ],
)
def test_what_is_wider_on_the_host_in_another_order_is_converted_there_while_it_is_small_and_on_its_way_up(
    is_upload: bool, mib: int, where: str, path: str
) -> None:
    turned = zeros(mib * MIB, F4).T
    found = compiled(turned, F2, is_upload=is_upload)
    assert (found.conversion, found.path) == (where, path)
    assert found.nbytes == (mib * MIB // 2 if where == "on the host" else mib * MIB)
    gaps = zeros(2 * mib * MIB, F4)[::2].T
    assert compiled(gaps, F2, is_upload=is_upload).conversion == "on the host"


def test_the_driver_copies_what_one_call_of_its_own_moves_as_fast() -> None:
    assert compiled(zeros(MIB)).tries_driver
    assert not compiled(zeros(MIB), is_blocking=False).tries_driver
    assert not compiled(zeros(MIB), means=means(has_driver=False)).tries_driver
    assert compiled(zeros(8 * MIB), memory="pooled").tries_driver
    assert not compiled(zeros(8 * MIB), memory="pinned", means=means(stages=True)).tries_driver


@pytest.mark.usefixtures("plugins")
def test_explain_prints_the_plan() -> None:
    x = np.zeros((1 << 11, 1 << 11), F4)
    with xl.use_backend("fake"):
        said = {name: str(xl.explain(each)) for name, each in {"whole": x, "rows": x[::2], "turned": x.T}.items()}
        back = str(xl.explain(xl.to_device(x)))
    assert "threads; past the processor's caches; converted nowhere" in said["whole"]
    assert "C gathers or scatters it" in said["rows"]
    assert "the device puts axes (1, 0) in order" in said["turned"]
    assert "copies of" in back


@pytest.mark.usefixtures("plugins")
def test_only_a_long_upload_goes_through_the_caches() -> None:
    with xl.use_backend("fake"):
        said = {mib: str(xl.explain(zeros(mib * MIB))) for mib in (4, 32, 255, 256, 512)}
        back = str(xl.explain(xl.to_device(zeros(256 * MIB))))
    assert [mib for mib, each in said.items() if "past the processor's caches" in each] == [4, 32, 255]
    assert [mib for mib, each in said.items() if "through the processor's caches" in each] == [256, 512]
    assert "past the processor's caches" in back


def test_a_piece_fits_a_chunk() -> None:
    assert 0 < plan.chunk_nbytes() <= THRESHOLDS.chunk_nbytes


def test_one_thread_of_a_copy_is_the_callers() -> None:
    with configured(threads=3):
        assert plan.helpers() == 2
    with configured(threads=1):
        assert plan.helpers() == 0


@given(nbytes=st.integers(1, 8 * MIB), other=st.floats(0, 1), is_upload=st.booleans(), is_pooled=st.booleans())
def test_plain_bytes_of_a_range_are_replayed_alike(nbytes: int, other: float, is_upload: bool, is_pooled: bool) -> None:
    """C keeps one way for all sizes of a range."""
    over, most = plan.same_way(nbytes)
    assert over < nbytes <= most
    memory: Any = "pooled" if is_pooled else "pageable"

    def flags(size: int) -> plan.Replay:
        found = compiled(np.empty(size, np.uint8), np.dtype(np.uint8), is_upload=is_upload, memory=memory)
        return plan.replay_flags(found, size, memory, is_upload=is_upload)

    last = min(most, 64 * MIB)
    assert flags(over + 1) == flags(nbytes) == flags(over + 1 + int(other * (last - over - 1))) == flags(last)


def test_each_threshold_says_where_it_was_measured() -> None:
    lines = ast.parse(inspect.getsource(thresholds)).body
    constants = [after for line, after in pairwise(lines) if isinstance(line, ast.Assign)]
    assert 20 <= len(constants) <= 25
    for each in constants:
        text = ast.literal_eval(each.value) if isinstance(each, ast.Expr) else ""
        hosts = text.rpartition("\nHosts: ")[2].removesuffix(".").split(", ")
        assert set(hosts) <= {"H100", "H200", "two cores"} or hosts == ["none"], text


@pytest.mark.parametrize(("given", "is_on_cuda"), [("int8", True), ("int8", False), ("float64", True)])
def test_the_cost_is_of_the_bytes_that_cross_the_link(
    given: str, is_on_cuda: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = xl.Calibration(
        pinned_up_gb_per_s=1.0, pinned_down_gb_per_s=1.0, staged_up_gb_per_s=1.0, staged_down_gb_per_s=1.0,
        latency_up_us=0.0, latency_down_us=0.0,
    )  # fmt: skip
    monkeypatch.setattr("xferlib._api.diagnose.get_calibration", lambda device: speed)
    with xl.use_backend("sim") as backend:
        device = backend.devices()[0]
        means = plan.means_of(backend.at(device), device)
        monkeypatch.setattr(plan, "known", {})
        monkeypatch.setattr(plan, "means_of", lambda *_: means._replace(is_cuda=is_on_cuda))  # converts what it widens
        found = xl.explain(np.zeros(1 << 22, given), dtype="float64")
    assert found.nbytes == (4 << 20 if given == "int8" and is_on_cuda else 32 << 20)
    assert found.expected_ms == pytest.approx(found.nbytes / 1e6)
