"""cuSOLVER: factorisations, by its functions of 64 bits where there are any."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib.backends.cuda.libraries import DATA_TYPES, Libraries

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.raw import RawStream

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_NO_TRANSPOSE, _LOWER, _UPPER = 0, 0, 1
"""``cublasOperation_t`` and ``cublasFillMode_t``."""
_NO_VECTORS = 0
"""Of ``cusolverEigMode_t``."""
_ALL, _SOME, _NONE = (ord(each) for each in "ASN")
"""The vectors that ``gesvd`` finds."""

SetUp = Callable[[int, int], Any]
"""Gives the arguments of a call for the handle and the number of a matrix."""


def _at(info: ArrayInfo, number: int) -> int:
    """The address of one element of the first axis."""
    return info.pointer + number * info.strides[0]


class Solver(Libraries):
    """One call for many small matrices where there is one; else one for each, with one workspace, on the stream."""

    @functools.cached_property
    def _params(self) -> int:
        """``cusolverDnParams_t``: which algorithm; never changed, and shared by all calls."""
        return int(self._bindings["cusolverDn"].create_params())

    def _each(
        self, name: str, count: int, size: Callable[[int], Any], solve: Callable[..., Any], stream: RawStream
    ) -> None:
        """Call ``solve(handle, number, device workspace, its bytes, host workspace, its bytes)`` for each matrix."""

        def run(handle: int) -> None:
            device_nbytes, host_nbytes = size(handle)
            _memory, pointer = self._workspace(device_nbytes, stream)
            host = np.empty(host_nbytes, "uint8")
            for number in range(count):
                solve(handle, number, pointer, device_nbytes, host.ctypes.data if host_nbytes else 0, host_nbytes)
            if host_nbytes:  # the library may read it in the order of the stream
                self._backend.stream_call(stream, functools.partial(host.fill, 0))

        self._call("cusolverDn", name, stream, run)

    def lu(
        self, a: ArrayInfo, each: ArrayInfo | None, pivots: ArrayInfo, codes: ArrayInfo, *, stream: RawStream
    ) -> None:
        """See `DeviceMath.lu`."""
        count, rows, _ = a.shape
        if each is not None:
            batched = getattr(self._bindings["cublas"], f"{_LETTERS[a.dtype.name]}getrf_batched")
            run = lambda handle: batched(handle, rows, each.pointer, rows, pivots.pointer, codes.pointer, count)
            self._call("cublas", "lu", stream, run)
            return
        solver, kind = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name]
        matrix: Callable[[int], tuple[Any, ...]] = lambda number: (self._params, rows, rows, kind, _at(a, number), rows)
        self._each(
            "lu",
            count,
            lambda handle: solver.xgetrf_buffer_size(handle, *matrix(0), kind),
            lambda handle, i, *work: solver.xgetrf(
                handle, *matrix(i), _at(pivots, i), kind, *work, _at(codes, i)
            ),
            stream,
        )  # fmt: skip

    def lu_solve(
        self,
        a: ArrayInfo,
        each: ArrayInfo | None,
        pivots: ArrayInfo,
        b: ArrayInfo,
        each_b: ArrayInfo | None,
        codes: ArrayInfo,
        *,
        stream: RawStream,
    ) -> None:
        """See `DeviceMath.lu_solve`."""
        count, sides, rows = b.shape
        if each is not None and each_b is not None:
            batched = getattr(self._bindings["cublas"], f"{_LETTERS[a.dtype.name]}getrs_batched")
            wrong = np.zeros(1, "int32")  # the number of a wrong argument, on the host
            self._call("cublas", "solve", stream, lambda handle: batched(
                handle, _NO_TRANSPOSE, rows, sides, each.pointer, rows, pivots.pointer, each_b.pointer, rows,
                wrong.ctypes.data, count,
            ))  # fmt: skip
            return
        solver, kind = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name]

        def run(handle: int) -> None:
            for i in range(count):
                solver.xgetrs(
                    handle, self._params, _NO_TRANSPOSE, rows, sides, kind, _at(a, i), rows, _at(pivots, i), kind,
                    _at(b, i), rows, _at(codes, i),
                )  # fmt: skip

        self._call("cusolverDn", "solve", stream, run)

    def cholesky(
        self, a: ArrayInfo, each: ArrayInfo | None, codes: ArrayInfo, *, is_upper: bool, stream: RawStream
    ) -> None:
        """See `DeviceMath.cholesky`."""
        solver, kind = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name]
        count, rows, _ = a.shape
        if each is not None:
            batched, triangle = (
                getattr(solver, f"{_LETTERS[a.dtype.name]}potrf_batched"),
                _UPPER if is_upper else _LOWER,
            )
            run = lambda handle: batched(handle, triangle, rows, each.pointer, rows, codes.pointer, count)
            self._call("cusolverDn", "cholesky", stream, run)
            return
        matrix: Callable[[int], tuple[Any, ...]] = lambda i: (
            self._params,
            _UPPER if is_upper else _LOWER,
            rows,
            kind,
            _at(a, i),
            rows,
            kind,
        )
        self._each(
            "cholesky",
            count,
            lambda handle: solver.xpotrf_buffer_size(handle, *matrix(0)),
            lambda handle, i, *work: solver.xpotrf(handle, *matrix(i), *work, _at(codes, i)),
            stream,
        )

    def qr(
        self,
        a: ArrayInfo,
        tau: ArrayInfo,
        each: tuple[ArrayInfo, ArrayInfo] | None,
        codes: ArrayInfo,
        *,
        stream: RawStream,
    ) -> None:
        """See `DeviceMath.qr`."""
        solver, kind = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name]
        count, columns, rows = a.shape
        if each is not None:
            batched = getattr(self._bindings["cublas"], f"{_LETTERS[a.dtype.name]}geqrf_batched")
            wrong = np.zeros(1, "int32")  # the number of a wrong argument, on the host
            one, two = (every.pointer for every in each)
            run = lambda handle: batched(handle, rows, columns, one, rows, two, wrong.ctypes.data, count)
            self._call("cublas", "qr", stream, run)
            return
        matrix: Callable[[int], tuple[Any, ...]] = lambda i: (
            self._params,
            rows,
            columns,
            kind,
            _at(a, i),
            rows,
            kind,
            _at(tau, i),
            kind,
        )
        self._each(
            "qr",
            count,
            lambda handle: solver.xgeqrf_buffer_size(handle, *matrix(0)),
            lambda handle, i, *work: solver.xgeqrf(handle, *matrix(i), *work, _at(codes, i)),
            stream,
        )

    def orthonormal(self, a: ArrayInfo, tau: ArrayInfo, codes: ArrayInfo, *, stream: RawStream) -> None:
        """See `DeviceMath.orthonormal`."""
        name = f"{_LETTERS[a.dtype.name]}{'orgqr' if a.dtype.kind == 'f' else 'ungqr'}"
        solver = self._bindings["cusolverDn"]
        make, size = getattr(solver, name), getattr(solver, f"{name}_buffer_size")
        count, columns, rows = a.shape
        matrix: Callable[[int], tuple[Any, ...]] = lambda i: (rows, columns, tau.shape[1], _at(a, i), rows, _at(tau, i))
        self._each(
            "qr",
            count,
            lambda handle: (size(handle, *matrix(0)) * a.dtype.itemsize, 0),
            lambda handle, i, pointer, nbytes, *_: make(
                handle, *matrix(i), pointer, nbytes // a.dtype.itemsize, _at(codes, i)
            ),
            stream,
        )  # fmt: skip

    def eigh(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        *,
        with_vectors: bool,
        is_one_operation: bool,
        stream: RawStream,
    ) -> None:
        """See `DeviceMath.eigh`."""
        solver, kind, real = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name], DATA_TYPES[values.dtype.name]
        count, rows, _ = a.shape
        matrix: Callable[[int], tuple[Any, ...]] = lambda i: (
            self._params, int(with_vectors), _LOWER, rows, kind, _at(a, i), rows, real, _at(values, i), kind
        )  # fmt: skip
        if is_one_operation:
            size = lambda handle: solver.xsyev_batched_buffer_size(handle, *matrix(0), count)
            solve = lambda handle, i, *work: solver.xsyev_batched(handle, *matrix(i), *work, codes.pointer, count)
        else:
            size = lambda handle: solver.xsyevd_buffer_size(handle, *matrix(0))
            solve = lambda handle, i, *work: solver.xsyevd(handle, *matrix(i), *work, _at(codes, i))
        self._each("eigh", 1 if is_one_operation else count, size, solve, stream)

    def eig(
        self, a: ArrayInfo, values: ArrayInfo, codes: ArrayInfo, vectors: ArrayInfo | None, *, stream: RawStream
    ) -> None:
        """See `DeviceMath.eig`; cuSOLVER has it since CUDA 12.8, without left vectors."""
        solver, kind, found = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name], DATA_TYPES[values.dtype.name]
        count, rows, _ = a.shape

        def matrix(i: int) -> tuple[Any, ...]:
            right = 0 if vectors is None else _at(vectors, i)
            return (
                self._params, _NO_VECTORS, int(vectors is not None), rows, kind, _at(a, i), rows, found,
                _at(values, i), kind, 0, rows, kind, right, rows, kind,
            )  # fmt: skip

        self._each(
            "eig",
            count,
            lambda handle: solver.xgeev_buffer_size(handle, *matrix(0)),
            lambda handle, i, *work: solver.xgeev(handle, *matrix(i), *work, _at(codes, i)),
            stream,
        )

    def svd(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        vectors: tuple[ArrayInfo, ArrayInfo] | None,
        *,
        stream: RawStream,
    ) -> None:
        """See `DeviceMath.svd`."""
        solver, kind, real = self._bindings["cusolverDn"], DATA_TYPES[a.dtype.name], DATA_TYPES[values.dtype.name]
        count, columns, rows = a.shape
        job = _NONE if vectors is None else _ALL if vectors[0].shape[1] == rows else _SOME

        def matrix(i: int) -> tuple[Any, ...]:
            left, right = (0, 0) if vectors is None else (_at(each, i) for each in vectors)
            return (
                self._params, job, job, rows, columns, kind, _at(a, i), rows, real, _at(values, i), kind, left, rows,
                kind, right, columns, kind,
            )  # fmt: skip

        self._each(
            "svd",
            count,
            lambda handle: solver.xgesvd_buffer_size(handle, *matrix(0)),
            lambda handle, i, *work: solver.xgesvd(handle, *matrix(i), *work, _at(codes, i)),
            stream,
        )

    def small_svd(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        vectors: tuple[ArrayInfo, ArrayInfo],
        *,
        with_vectors: bool,
        stream: RawStream,
    ) -> None:
        """See `DeviceMath.small_svd`."""
        solver, name = self._bindings["cusolverDn"], f"{_LETTERS[a.dtype.name]}gesvdj_batched"
        find, size = getattr(solver, name), getattr(solver, f"{name}_buffer_size")
        count, columns, rows = a.shape
        left, right = (each.pointer for each in vectors)
        matrices = (
            int(with_vectors), rows, columns, a.pointer, rows, values.pointer, left, rows, right, columns
        )  # fmt: skip

        def run(handle: int) -> None:
            params = solver.create_gesvdj_info()
            try:
                # The dtype resolves no more: rotations below this change nothing.
                solver.xgesvdj_set_tolerance(params, float(np.finfo(a.dtype).eps))
                elements = size(handle, *matrices, params, count)
                _memory, pointer = self._workspace(elements * a.dtype.itemsize, stream)
                find(handle, *matrices, pointer, elements, codes.pointer, params, count)
            finally:
                solver.destroy_gesvdj_info(params)

        self._call("cusolverDn", "svd", stream, run)
