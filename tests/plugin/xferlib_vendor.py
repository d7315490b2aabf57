"""A device whose linear algebra and transforms are libraries', and a double of their bindings that computes with NumPy.

The double takes addresses, leading dimensions and steps as cuBLAS, cuSOLVER and cuFFT do, column by column, and refuses
what they refuse. Its arrays are those of `xferlib_bare`, whose memory the host pretends not to read.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import threading
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
from xferlib_bare import BareBackend

from xferlib.backends.base import WHY_HOST, Capabilities, Device, RawStream
from xferlib.backends.cuda.math import CudaMath
from xferlib.backends.cuda.sorting import CudaSorting
from xferlib.backends.host import over as host_memory

DTYPES = {0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128"}


def memory(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """An array over an address, with strides in elements."""
    dtype = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    raw = (ctypes.c_byte * ((last + 1) * dtype.itemsize)).from_address(pointer)
    return np.ndarray(shape, dtype, raw, 0, tuple(each * dtype.itemsize for each in strides))


def by_columns(pointer: int, rows: int, columns: int, leading: int, dtype: Any) -> Any:
    """A matrix as the libraries see it."""
    if leading < max(rows, 1):
        raise VendorError("INVALID_VALUE (leading dimension)")
    return memory(pointer, (rows, columns), (1, leading), dtype)


class VendorError(Exception):
    """A result of a library that is no success."""


class Library:
    """The handles of one library, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.alive: set[int] = set()
        self.streams: dict[int, int] = {}
        self.fail: str | None = None
        self._numbers = itertools.count(1)

    def create(self) -> int:
        number = next(self._numbers)
        self.alive.add(number)
        return number

    def destroy(self, handle: int) -> None:
        self.alive.remove(handle)

    def set_stream(self, handle: int, stream: int) -> None:
        self.streams[handle] = stream

    def note(self, name: str, handle: int, *args: Any) -> None:
        """Record a call, which fails if the test wants it."""
        assert handle in self.alive
        assert handle in self.streams
        if self.fail is not None:
            raise VendorError(self.fail)
        self.calls.append((name, args))


class Cublas(Library):
    Math = SimpleNamespace(DISALLOW_REDUCED_PRECISION_REDUCTION=16)
    Operation = SimpleNamespace(N=0, T=1, C=2)
    ComputeType = SimpleNamespace(COMPUTE_32F=68, COMPUTE_64F=70)

    def set_math_mode(self, handle: int, mode: int) -> None:
        assert mode == 16

    def gemm_ex_64(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int, b: int,
        btype: int, ldb: int, beta: int, c: int, ctype: int, ldc: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        self.note("gemm", handle, ta, tb, m, n, k, lda, ldb, ldc)
        self._gemm(ta, tb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta, c, ctype, ldc, compute, algorithm)

    def gemm_strided_batched_ex_64(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int,
        step_a: int, b: int, btype: int, ldb: int, step_b: int, beta: int, c: int, ctype: int, ldc: int, step_c: int,
        count: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        self.note("gemm_batched", handle, ta, tb, m, n, k, lda, step_a, ldb, step_b, ldc, step_c, count)
        size = np.dtype(DTYPES[atype]).itemsize
        for i in range(count):
            one, two, three = a + i * step_a * size, b + i * step_b * size, c + i * step_c * size
            self._gemm(
                ta, tb, m, n, k, alpha, one, atype, lda, two, btype, ldb, beta, three, ctype, ldc, compute, algorithm
            )

    def _gemm(
        self, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int, b: int, btype: int,
        ldb: int, beta: int, c: int, ctype: int, ldc: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        assert atype == btype == ctype
        assert algorithm == -1
        dtype = DTYPES[atype]
        assert compute == (68 if dtype in ("float16", "float32", "complex64") else 70)
        scale = "float32" if dtype == "float16" else dtype
        assert memory(alpha, (1,), (1,), scale)[0] == 1
        assert memory(beta, (1,), (1,), scale)[0] == 0
        first = by_columns(a, k, m, lda, dtype).T if ta else by_columns(a, m, k, lda, dtype)
        second = by_columns(b, n, k, ldb, dtype).T if tb else by_columns(b, k, n, ldb, dtype)
        target = by_columns(c, m, n, ldc, dtype)
        # As einsum adds: in the order of k, so that a test may expect the very bits.
        target[...] = np.einsum("mk,kn->mn", first.astype(scale), second.astype(scale), optimize=False)

    def _getrf_batched(self, dtype: str, handle: int, n: int, a: int, lda: int, p: int, info: int, count: int) -> None:
        self.note("getrf_batched", handle, n, lda, count)
        addresses = memory(a, (count,), (1,), "int64")
        pivots, codes = memory(p, (count, n), (n, 1), "int32"), memory(info, (count,), (1,), "int32")
        for i in range(count):
            codes[i] = factor(by_columns(int(addresses[i]), n, n, lda, dtype), pivots[i])

    def _geqrf_batched(
        self, dtype: str, handle: int, m: int, n: int, a: int, lda: int, tau: int, info: int, count: int
    ) -> None:  # fmt: skip
        self.note("geqrf_batched", handle, m, n, count)
        one, two = (memory(each, (count,), (1,), "int64") for each in (a, tau))
        memory(info, (1,), (1,), "int32")[0] = 0
        for i in range(count):
            reflect(by_columns(int(one[i]), m, n, lda, dtype), memory(int(two[i]), (min(m, n),), (1,), dtype))

    def _getrs_batched(
        self, dtype: str, handle: int, trans: int, n: int, sides: int, a: int, lda: int, p: int, b: int, ldb: int,
        info: int, count: int,
    ) -> None:  # fmt: skip
        self.note("getrs_batched", handle, n, sides, lda, ldb, count)
        one, two = (memory(each, (count,), (1,), "int64") for each in (a, b))
        pivots = memory(p, (count, n), (n, 1), "int32")
        memory(info, (1,), (1,), "int32")[0] = 0
        assert trans == 0
        for i in range(count):
            back(by_columns(int(one[i]), n, n, lda, dtype), pivots[i], by_columns(int(two[i]), n, sides, ldb, dtype))

    def __getattr__(self, name: str) -> Any:
        letter, rest = name[0], name[1:]
        dtype = dict(zip("sdcz", ("float32", "float64", "complex64", "complex128"), strict=True))[letter]
        function = getattr(type(self), f"_{rest}")
        return lambda *args: function(self, dtype, *args)


def factor(a: Any, pivots: Any) -> int:
    """Replace a matrix by its triangles, as LAPACK's ``getrf``: pivots count from 1."""
    code = 0
    for at in range(len(a)):
        best = at + int(np.argmax(np.abs(a[at:, at])))
        pivots[at] = best + 1
        a[[at, best]] = a[[best, at]]
        if a[at, at] == 0:
            code = code or at + 1
            continue
        a[at + 1 :, at] /= a[at, at]
        a[at + 1 :, at + 1 :] -= np.outer(a[at + 1 :, at], a[at, at + 1 :])
    return code


def reflect(a: Any, tau: Any) -> None:
    """Replace a matrix by a triangle and reflections, as ``geqrf``."""
    reflections, factors = np.linalg.qr(a, mode="raw")
    a[...], tau[...] = reflections.T, factors


def root(a: Any, uplo: int) -> int:
    """Replace one triangle of a matrix by its Cholesky factor, as ``potrf``; the other one stays."""
    keep, code = np.triu if uplo else np.tril, 0
    try:
        found = np.linalg.cholesky(a, upper=bool(uplo))
    except np.linalg.LinAlgError:
        found, code = keep(a), 1
    a[...] = found + a - keep(a)
    return code


def back(a: Any, pivots: Any, b: Any) -> None:
    """Replace right sides by solutions, as ``getrs``."""
    for at, pivot in enumerate(pivots):
        b[[at, pivot - 1]] = b[[pivot - 1, at]]
    with np.errstate(all="ignore"):
        for at in range(len(a)):
            b[at + 1 :] -= np.outer(a[at + 1 :, at], b[at])
        for at in reversed(range(len(a))):
            b[at] /= a[at, at]
            b[:at] -= np.outer(a[:at, at], b[at])


class Cusolver(Library):
    infos = 0
    """Parameters of Jacobi's method that are alive."""
    WORKSPACE = (48, 16)
    """Bytes on the device and on the host."""

    def create_params(self) -> int:
        return 77

    def _check(self, name: str, handle: int, params: int, work: tuple[int, ...]) -> None:
        self.note(name, handle)
        assert params == 77
        device, device_nbytes, host, host_nbytes = work
        assert (device_nbytes, host_nbytes) == self.WORKSPACE
        memory(device, (device_nbytes,), (1,), "uint8")[...] = 0xFF
        memory(host, (host_nbytes,), (1,), "uint8")[...] = 0xFF

    def xgetrf_buffer_size(self, *args: Any) -> tuple[int, int]:
        return self.WORKSPACE

    xpotrf_buffer_size = xgeqrf_buffer_size = xsyevd_buffer_size = xgesvd_buffer_size = xgetrf_buffer_size

    def xgetrf(
        self, handle: int, params: int, m: int, n: int, kind: int, a: int, lda: int, p: int, compute: int, *rest: int
    ) -> None:  # fmt: skip
        self._check("xgetrf", handle, params, rest[:4])
        assert kind == compute
        found = factor(by_columns(a, m, n, lda, DTYPES[kind]), memory(p, (m,), (1,), "int64"))
        memory(rest[4], (1,), (1,), "int32")[0] = found

    def xgetrs(
        self, handle: int, params: int, trans: int, n: int, sides: int, kind: int, a: int, lda: int, p: int,
        kind_b: int, b: int, ldb: int, info: int,
    ) -> None:  # fmt: skip
        self.note("xgetrs", handle)
        assert (params, trans, kind) == (77, 0, kind_b)
        pivots = memory(p, (n,), (1,), "int64")
        back(by_columns(a, n, n, lda, DTYPES[kind]), pivots, by_columns(b, n, sides, ldb, DTYPES[kind]))
        memory(info, (1,), (1,), "int32")[0] = 0

    def xpotrf(
        self, handle: int, params: int, uplo: int, n: int, kind: int, a: int, lda: int, compute: int, *rest: int
    ) -> None:  # fmt: skip
        self._check("xpotrf", handle, params, rest[:4])
        assert kind == compute
        memory(rest[4], (1,), (1,), "int32")[0] = root(by_columns(a, n, n, lda, DTYPES[kind]), uplo)

    def _potrf_batched(
        self, dtype: str, handle: int, uplo: int, n: int, a: int, lda: int, info: int, count: int
    ) -> None:
        self.note("potrf_batched", handle, n, count)
        addresses, codes = memory(a, (count,), (1,), "int64"), memory(info, (count,), (1,), "int32")
        for i in range(count):
            codes[i] = root(by_columns(int(addresses[i]), n, n, lda, dtype), uplo)

    def xgeqrf(
        self, handle: int, params: int, m: int, n: int, kind: int, a: int, lda: int, kind_tau: int, tau: int,
        compute: int, *rest: int,
    ) -> None:  # fmt: skip
        self._check("xgeqrf", handle, params, rest[:4])
        assert kind == compute == kind_tau
        reflect(by_columns(a, m, n, lda, DTYPES[kind]), memory(tau, (min(m, n),), (1,), DTYPES[kind]))
        memory(rest[4], (1,), (1,), "int32")[0] = 0

    def _orgqr(
        self, dtype: str, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, size: int,
        info: int,
    ) -> None:  # fmt: skip
        self.note("orgqr", handle, m, n, k)
        assert m >= n >= k
        assert size == 5
        memory(work, (size,), (1,), dtype)[...] = np.nan
        matrix, factors = by_columns(a, m, n, lda, dtype), memory(tau, (k,), (1,), dtype)
        found = np.eye(m, n, dtype=dtype)
        for at in reversed(range(k)):
            v = np.concatenate([np.zeros(at), [1], matrix[at + 1 :, at]])
            found -= factors[at] * np.outer(v, np.conj(v) @ found)
        matrix[...] = found
        memory(info, (1,), (1,), "int32")[0] = 0

    def xsyevd(
        self, handle: int, params: int, job: int, uplo: int, n: int, kind: int, a: int, lda: int, kind_w: int, w: int,
        compute: int, *rest: int,
    ) -> None:  # fmt: skip
        self._check("xsyevd", handle, params, rest[:4])
        assert uplo == 0
        assert kind == compute
        self._diagonalize(job, n, kind, a, lda, kind_w, w, rest[4])

    def _diagonalize(
        self, job: int, n: int, kind: int, a: int, lda: int, kind_w: int, w: int, info: int
    ) -> None:  # fmt: skip
        matrix = by_columns(a, n, n, lda, DTYPES[kind])
        values, vectors = np.linalg.eigh(matrix)
        memory(w, (n,), (1,), DTYPES[kind_w])[...] = values
        matrix[...] = vectors if job else np.nan
        memory(info, (1,), (1,), "int32")[0] = 0

    def xsyev_batched_buffer_size(self, *args: Any) -> tuple[int, int]:
        assert args[-1] > 1
        return self.WORKSPACE

    def xsyev_batched(
        self, handle: int, params: int, job: int, uplo: int, n: int, kind: int, a: int, lda: int, kind_w: int, w: int,
        compute: int, *rest: int,
    ) -> None:  # fmt: skip
        self._check("xsyev_batched", handle, params, rest[:4])
        assert uplo == 0
        assert kind == compute
        info, count = rest[4:]
        size, step = np.dtype(DTYPES[kind]).itemsize, np.dtype(DTYPES[kind_w]).itemsize
        for i in range(count):
            self._diagonalize(job, n, kind, a + i * lda * n * size, lda, kind_w, w + i * n * step, info + 4 * i)

    def xgeev_buffer_size(self, *args: Any) -> tuple[int, int]:
        assert len(args) == 17
        return self.WORKSPACE

    def xgeev(
        self, handle: int, params: int, left: int, right: int, n: int, kind: int, a: int, lda: int, kind_w: int, w: int,
        kind_l: int, vl: int, ldvl: int, kind_r: int, vr: int, ldvr: int, compute: int, *rest: int,
    ) -> None:  # fmt: skip
        self._check("xgeev", handle, params, rest[:4])
        assert kind == compute == kind_l == kind_r
        assert not left, "the library finds no left vectors"
        matrix = by_columns(a, n, n, lda, DTYPES[kind])
        values, vectors = np.linalg.eig(matrix)
        memory(w, (n,), (1,), DTYPES[kind_w])[...] = values
        matrix[...] = np.nan
        if right:
            columns = vectors if matrix.dtype.kind == "c" else vectors.real
            for at in np.flatnonzero(values.imag < 0) if matrix.dtype.kind == "f" else ():
                columns[:, at] = vectors[:, at - 1].imag
            by_columns(vr, n, n, ldvr, DTYPES[kind])[...] = columns
        memory(rest[4], (1,), (1,), "int32")[0] = 0

    def xgesvd(
        self, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, kind: int, a: int, lda: int,
        kind_s: int, s: int, kind_u: int, u: int, ldu: int, kind_v: int, vt: int, ldvt: int, compute: int, *rest: int,
    ) -> None:  # fmt: skip
        self._check("xgesvd", handle, params, rest[:4])
        assert m >= n, "cuSOLVER takes no other matrices"
        assert kind == compute == kind_u == kind_v
        dtype = DTYPES[kind]
        left, values, right = np.linalg.svd(by_columns(a, m, n, lda, dtype), full_matrices=jobu == ord("A"))
        memory(s, (n,), (1,), DTYPES[kind_s])[...] = values
        if jobu == ord("N"):
            assert jobvt == ord("N")
        else:
            assert jobvt == jobu
            by_columns(u, m, left.shape[1], ldu, dtype)[...] = left
            by_columns(vt, n, n, ldvt, dtype)[...] = right
        memory(rest[4], (1,), (1,), "int32")[0] = 0

    def __getattr__(self, name: str) -> Any:
        dtype = dict(zip("sdcz", ("float32", "float64", "complex64", "complex128"), strict=True))[name[0]]
        if name.endswith("_buffer_size"):
            return lambda *args: 5
        if name[1:] == "potrf_batched":
            return lambda *args: self._potrf_batched(dtype, *args)
        if name[1:] == "gesvdj_batched":
            return lambda *args: self._gesvdj_batched(dtype, *args)
        assert name[1:].startswith("orgqr" if name[0] in "sd" else "ungqr")
        return lambda *args: self._orgqr(dtype, *args)

    def create_gesvdj_info(self) -> int:
        self.infos += 1
        return 78

    def xgesvdj_set_tolerance(self, info: int, tolerance: float) -> None:
        assert (info, tolerance) in ((78, np.finfo("float32").eps), (78, np.finfo("float64").eps))

    def destroy_gesvdj_info(self, info: int) -> None:
        self.infos -= 1

    def _gesvdj_batched(
        self, dtype: str, handle: int, job: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int, v: int,
        ldv: int, work: int, size: int, info: int, params: int, count: int,
    ) -> None:  # fmt: skip
        self.note("gesvdj_batched", handle, m, n, count)
        assert max(m, n) <= 32, "cuSOLVER takes no other matrices"
        assert (params, self.infos, size) == (78, 1, 5)
        memory(work, (size,), (1,), dtype)[...] = np.nan
        k, itemsize = min(m, n), np.dtype(dtype).itemsize
        for i in range(count):
            left, values, right = np.linalg.svd(by_columns(a + i * lda * n * itemsize, m, n, lda, dtype))
            memory(s, (count, k), (k, 1), values.dtype)[i] = values
            memory(info, (count,), (1,), "int32")[i] = 0
            assert u, "the library uses them in any case"
            assert v, "the library uses them in any case"
            if job:
                by_columns(u + i * ldu * m * itemsize, m, m, ldu, dtype)[...] = left
                by_columns(v + i * ldv * n * itemsize, n, n, ldv, dtype)[...] = right.conj().T


class Cufft(Library):
    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[int, Any] = {}
        self.areas: dict[int, int] = {}

    def set_auto_allocation(self, plan: int, is_automatic: int) -> None:
        assert not is_automatic

    def set_work_area(self, plan: int, pointer: int) -> None:
        self.areas[plan] = pointer

    def xt_make_plan_many(
        self, plan: int, rank: int, n: Any, inembed: Any, istride: int, idist: int, source: int, onembed: Any,
        ostride: int, odist: int, target: int, batch: int, compute: int,
    ) -> int:  # fmt: skip
        assert rank == len(n) == len(inembed) == len(onembed) <= 3
        assert (istride, ostride, compute) == (1, 1, max(source, target))
        assert (idist, odist) == (math.prod(inembed), math.prod(onembed))
        self.plans[plan] = (tuple(n), tuple(inembed), tuple(onembed), DTYPES[source], DTYPES[target], batch)
        self.note_plan(*self.plans[plan])
        return 64

    def note_plan(self, *args: Any) -> None:
        self.calls.append(("plan", args))

    def xt_exec(self, plan: int, source: int, target: int, direction: int) -> None:
        self.note("exec", plan, direction)
        n, inside, outside, kind, kind_out, batch = self.plans[plan]
        memory(self.areas.pop(plan), (64,), (1,), "uint8")[...] = 0xFF
        whole = lambda shape: ((batch, *shape), tuple(math.prod((*shape, 1)[at:]) for at in range(len(shape) + 1)))
        x, y = memory(source, *whole(inside), kind), memory(target, *whole(outside), kind_out)
        axes = tuple(range(1, len(n) + 1))
        if kind.startswith("float"):
            y[...] = np.fft.rfftn(x, axes=axes)
        elif kind_out.startswith("float"):
            y[...] = np.fft.irfftn(x, s=n, axes=axes, norm="forward")
            x[...] = np.nan
        else:
            y[...] = np.fft.fftn(x, axes=axes) if direction < 0 else np.fft.ifftn(x, axes=axes, norm="forward")


class Compute:
    """``cuda.compute``: what `CudaSorting` uses of it."""

    SortOrder = SimpleNamespace(ASCENDING=0, DESCENDING=1)
    TEMPORARY = 96
    refusal: type[Exception] = ValueError
    """The error for machine code that it did not make."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, bool]] = []
        self.compiled: list[tuple[str | None, str | None, int]] = []

    def make_radix_sort(self, *, order: int, compute_capability: tuple[int, int], **arrays: Any) -> Any:
        assert compute_capability == VendorBackend.ARCHITECTURE
        # The library leaves values out of the code where their address is 0.
        assert all(each is None or each.__cuda_array_interface__["data"][0] for each in arrays.values())
        kinds = {name: None if each is None else each.dtype.str for name, each in arrays.items()}
        self.compiled.append((kinds["d_in_keys"], kinds["d_in_values"], order))
        return json.dumps([order, kinds])

    def serialize(self, made: str) -> bytes:
        return made.encode()

    def deserialize(self, code: bytes) -> Any:
        """Make a sort of machine code; other bytes are refused."""
        if not code.startswith(b"["):
            raise self.refusal("serialization blob: bad magic")
        order, named = json.loads(code)
        thread = threading.get_ident()
        kinds = {name: None if each is None else np.dtype(each) for name, each in named.items()}
        assert kinds["d_in_keys"] == kinds["d_out_keys"]
        assert kinds["d_in_values"] == kinds["d_out_values"]

        def sort(
            *, temp_storage: Any, num_items: int, begin_bit: int, end_bit: int | None, stream: Any, **given: Any
        ) -> int:
            assert {name: None if each is None else each.dtype for name, each in given.items()} == kinds
            assert stream.__cuda_stream__()[0] == 0
            assert threading.get_ident() == thread, "a sorter keeps the arguments of its call"
            if temp_storage is None:
                return self.TEMPORARY
            over(temp_storage)[...] = 0xFF
            assert temp_storage.nbytes == self.TEMPORARY
            keys = over(given["d_in_keys"])
            counted = keys if end_bit is None else keys & ((1 << end_bit) - 1)
            assert begin_bit == 0
            self.calls.append((keys.dtype.name, num_items, kinds["d_in_values"] is not None))
            if order:
                places = num_items - 1 - np.argsort(counted[::-1], kind="stable")[::-1]
            else:
                places = np.argsort(counted, kind="stable")
            over(given["d_out_keys"])[...] = keys[places]
            if given["d_in_values"] is not None:
                over(given["d_out_values"])[...] = over(given["d_in_values"])[places]
            return self.TEMPORARY

        return sort


def over(described: Any) -> Any:
    """The memory of an array that describes itself as CUDA's libraries want it."""
    told = described.__cuda_array_interface__
    assert told["strides"] is None
    (extent,) = told["shape"]
    return memory(told["data"][0], (extent,), (1,), told["typestr"])


class VendorArray:
    """Owns a NumPy array, or a view of one."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = data.dtype


class VendorBackend(BareBackend):
    """The model for a library whose device has libraries of linear algebra."""

    name = "vendor"
    array_types = ("xferlib_vendor.VendorArray",)
    capabilities = Capabilities(strided=True, namespace=True, why=WHY_HOST)
    array_class = VendorArray
    ARCHITECTURE = (9, 0)

    def __init__(self) -> None:
        super().__init__()
        self.bindings: dict[str, Any] = {"cublas": Cublas(), "cusolverDn": Cusolver(), "cufft": Cufft()}
        self.math = CudaMath(self, self.bindings)
        self.compute = Compute()
        self.entered: list[Device] = []
        self.consumptions: list[tuple[Any, RawStream]] = []
        self.sorting = CudaSorting(self, self.compute)

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> VendorArray:
        return VendorArray(host_memory(pointer, shape, dtype, owner))

    def consumed(self, array: VendorArray, stream: RawStream) -> None:
        self.consumptions.append((array, stream))

    def compute_capability(self, device: Device) -> tuple[int, int]:
        return self.ARCHITECTURE

    def compiler_version(self) -> str:
        return "13.0"

    def inside(self, device: Device) -> AbstractContextManager[None]:
        self.entered.append(device)
        return nullcontext()

    def compute_on_host(self, *args: Any) -> bool:
        return False
