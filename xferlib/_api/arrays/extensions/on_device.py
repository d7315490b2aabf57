"""Factorisations by a vendor's library, for memory that the host cannot read.

A stack of small matrices is one operation of the library wherever it has one for that.

The libraries count by columns: a matrix is copied transposed, and a result that lies by columns is copied back. Where
a matrix could not be factored its results are NaN, as where the host computes: the host never waits for the device.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._api.arrays import creation, elementwise, indexing, manipulation, radix, reductions, selecting, shaping
from xferlib._api.arrays.extensions import products
from xferlib._api.arrays.extensions.stacks import Stack
from xferlib._api.arrays.joining import part
from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array, ArrayInfo
from xferlib.backends.device_math import MOST_SMALL, DeviceMath
from xferlib.kernels import ElementwiseKernel
from xferlib.kernels import elementwise as make_kernel

_INT64, _INT32 = np.dtype("int64"), np.dtype("int32")


@functools.cache
def _paired(dtype: np.dtype[Any]) -> ElementwiseKernel:
    """A pair of conjugate eigenvalues has two columns: the real and the imaginary parts of the first one's vector."""
    made = f"complex<{'float' if dtype == np.complex64 else 'double'}>"
    statements = f"""
        auto part = w[i / n].imag();
        if (part > 0 && i / n % n + 1 < n) {{ y = {made}(v[i], v[i + n]); }}
        else if (part < 0 && i / n % n > 0) {{ y = {made}(v[i - n], -v[i]); }}
        else {{ y = v[i]; }}
    """
    return make_kernel("raw T v, raw C w, int64 n", "C y", statements, name="paired")


@functools.cache
def _identities() -> ElementwiseKernel:
    return make_kernel("int64 rows", "T y", "y = i / rows % rows == i % rows ? 1 : 0;", name="identities")


@functools.cache
def _reflections() -> ElementwiseKernel:
    """Each thread reflects one column of the identity, which it alone reads and writes: in its own order."""
    statements = """
        long long at = i / inner, column = i % inner, first = at * rows * inner + column, from = at * columns * rows;
        for (long long r = 0; r < rows; ++r) { q[first + r * inner] = r == column ? 1 : 0; }
        for (long long k = least - 1; k >= 0; --k) {
            T sum = q[first + k * inner];
            for (long long r = k + 1; r < rows; ++r) { sum += conj(v[from + k * rows + r]) * q[first + r * inner]; }
            sum *= tau[at * least + k];
            q[first + k * inner] -= sum;
            for (long long r = k + 1; r < rows; ++r) { q[first + r * inner] -= sum * v[from + k * rows + r]; }
        }
    """
    inputs = "int32 driver, raw T v, raw T tau, int64 rows, int64 columns, int64 least, int64 inner"
    return make_kernel(inputs, "raw T q", statements, name="reflections", math="fast")


@functools.cache
def _signed() -> ElementwiseKernel:
    return make_kernel("int64 swaps, T x", "T y", "if (swaps % 2) { y = -x; } else { y = x; }", name="signed")


# --- systems of equations


class _Factored(Stack):
    """Square matrices, factored into triangles."""

    def __init__(self, lib: Primitives, x: Array) -> None:
        super().__init__(lib, x)
        is_one = self.is_one_operation
        self.each = [self.addresses(self.data)] if is_one else []
        self.pivots = self.empty(self.rows, dtype=_INT32 if is_one else _INT64)

        def factor(
            library: DeviceMath, a: ArrayInfo, pivots: ArrayInfo, codes: ArrayInfo, *each: ArrayInfo, stream: Any
        ) -> None:
            library.lu(a, each[0] if each else None, pivots, codes, stream=stream)

        self.call("lu", [self.data, self.pivots, self.codes, *self.each], factor)

    def solutions(self, b: Array) -> Array:
        """Solve for right sides, shape (count, sides, rows), which are overwritten."""
        each = [*self.each, self.addresses(b)] if self.each else []
        wrong = self.empty(dtype=_INT32)

        def solve(
            library: DeviceMath, a: ArrayInfo, pivots: ArrayInfo, b: ArrayInfo, codes: ArrayInfo, *each: ArrayInfo,
            stream: Any,
        ) -> None:  # fmt: skip
            one, two = each or (None, None)
            library.lu_solve(a, one, pivots, b, two, codes, stream=stream)

        self.call("solve", [self.data, self.pivots, b, wrong, *each], solve)
        return b

    def diagonal(self) -> Array:
        """The diagonal of the upper triangle, and of the whole product but for its sign."""
        return self.lib.viewed(self.data, np.linalg.diagonal(self.lib.shadow(self.data)))

    def swaps(self) -> Array:
        """How many rows were exchanged."""
        numbers = radix.numbered(self.lib, (self.count, self.rows), self.device)
        moved = elementwise.binary_kernel("not_equal")(elementwise.binary_kernel("subtract")(self.pivots, 1), numbers)
        return reductions.reduction(self.lib, "count_nonzero")(moved, axis=-1)


def det(lib: Primitives, x: Array) -> Array:
    stack = _Factored(lib, x)
    found = reductions.accumulation(lib, "prod")(stack.diagonal(), axis=-1)
    return stack.result(_signed()(stack.swaps(), found), 0)


def slogdet(lib: Primitives, x: Array) -> tuple[Array, Array]:
    stack = _Factored(lib, x)
    diagonal = stack.diagonal()
    sign = reductions.accumulation(lib, "prod")(elementwise.unary_kernel("sign")(diagonal), axis=-1)
    logarithms = elementwise.unary_kernel("log")(elementwise.unary_kernel("absolute")(diagonal))
    total = reductions.accumulation(lib, "sum")(logarithms, axis=-1)
    return stack.result(_signed()(stack.swaps(), sign), 0), stack.result(total, -np.inf)


def inv(lib: Primitives, x: Array) -> Array:
    stack = _Factored(lib, x)
    identity = stack.empty(stack.rows, stack.rows)
    _identities()(stack.rows, identity)
    return stack.by_rows(stack.solutions(identity))


def solve(lib: Primitives, x: Array, b: Array) -> Array:
    """``b``: vectors if it has one axis, else matrices; batches broadcast."""
    is_vector = len(lib.info(b).shape) == 1
    if is_vector:
        b = shaping.expand_dims(lib, b, -1)
    batches = [lib.info(each).shape[:-2] for each in (x, b)]
    batch = shaping.common_shape("linalg.solve", *batches)
    stack = _Factored(lib, shaping.broadcast_to(lib, x, (*batch, *lib.info(x).shape[-2:])))
    b = shaping.broadcast_to(lib, b, (*batch, *lib.info(b).shape[-2:]))
    sides = shaping.reshape(
        lib, lib.copy(shaping.matrix_transpose(lib, b)), (stack.count, lib.info(b).shape[-1], stack.rows)
    )
    found = stack.by_rows(stack.solutions(sides))
    return shaping.squeeze(lib, found, -1) if is_vector else found


# --- factorisations


def cholesky(lib: Primitives, x: Array, *, upper: bool = False) -> Array:
    stack = Stack(lib, x)

    each = [stack.addresses(stack.data)] if stack.is_one_operation else []

    def factor(library: DeviceMath, a: ArrayInfo, codes: ArrayInfo, *each: ArrayInfo, stream: Any) -> None:
        library.cholesky(a, each[0] if each else None, codes, is_upper=upper, stream=stream)

    stack.call("cholesky", [stack.data, stack.codes, *each], factor)
    matrices = shaping.matrix_transpose(lib, stack.data)
    return stack.result((manipulation.triu if upper else manipulation.tril)(lib, matrices))


def qr(lib: Primitives, x: Array, *, mode: str) -> tuple[Array, Array]:
    stack = Stack(lib, x)
    least = min(stack.rows, stack.columns)
    inner = stack.rows if mode == "complete" else least
    tau = stack.empty(least)
    each = [stack.addresses(stack.data), stack.addresses(tau)] if stack.is_one_operation else []

    def factor(
        library: DeviceMath, a: ArrayInfo, tau: ArrayInfo, codes: ArrayInfo, *each: ArrayInfo, stream: Any
    ) -> None:
        library.qr(a, tau, (each[0], each[1]) if each else None, codes, stream=stream)

    stack.call("qr", [stack.data, tau, stack.codes, *each], factor)
    triangle = manipulation.triu(lib, part(lib, shaping.matrix_transpose(lib, stack.data), 1, 0, inner))
    if each:  # an operation that tells of wrong arguments alone
        expanded = (_reflected if stack.rows <= MOST_SMALL else _accumulated)(stack, tau, inner)
        return stack.shaped(expanded), stack.shaped(triangle)
    columns = stack.empty(inner, stack.rows)
    indexing.assign(lib, part(lib, columns, 1, 0, least), part(lib, stack.data, 1, 0, least))

    def expand(library: DeviceMath, a: ArrayInfo, tau: ArrayInfo, codes: ArrayInfo, *, stream: Any) -> None:
        library.orthonormal(a, tau, codes, stream=stream)

    stack.call("qr", [columns, tau, stack.codes], expand)
    return stack.by_rows(columns), stack.result(triangle)


def _reflected(stack: Stack, tau: Array, inner: int) -> Array:
    """The first columns of the products of all reflections of each small matrix, for which there is no operation."""
    found = stack.empty(stack.rows, inner)
    driver = shaping.broadcast_to(stack.lib, shaping.expand_dims(stack.lib, stack.codes, -1), (stack.count, inner))
    least = min(stack.rows, stack.columns)
    _reflections()(driver, stack.data, tau, stack.rows, stack.columns, least, inner, found)
    return found


def _accumulated(stack: Stack, tau: Array, inner: int) -> Array:
    """The same of larger matrices, by products of matrices.

    The product of ``1 - tau[i] v[i] v[i]*`` is ``1 - V T V*`` with a triangular T, the inverse of which has
    ``1 / tau[i]`` on its diagonal and above it the elements of ``V* V`` (Joffrain et al., "Accumulating Householder
    transformations, revisited", ACM TOMS 32, 2006). A ``tau`` may be 0, so both sides are multiplied by it.
    """
    lib, (rows, least) = stack.lib, (stack.rows, min(stack.rows, stack.columns))
    add, multiply, subtract = map(elementwise.binary_kernel, ("add", "multiply", "subtract"))
    one = functools.partial(creation.eye, lib, dtype=stack.dtype, device=stack.device)
    lower = manipulation.tril(lib, part(lib, shaping.matrix_transpose(lib, stack.data), 2, 0, least), k=-1)
    vectors = add(lower, one(rows, least))
    adjoint = _adjoint(lib, vectors)
    above = manipulation.triu(lib, products.matmul(lib, adjoint, vectors), k=1)
    factors = shaping.expand_dims(lib, tau, -1)
    triangle = solve(lib, add(multiply(factors, above), one(least)), multiply(factors, one(least)))
    turned = products.matmul(lib, triangle, part(lib, adjoint, 2, 0, inner))
    return subtract(one(rows, inner), products.matmul(lib, vectors, turned))


def eigh(lib: Primitives, x: Array, *, with_vectors: bool = True) -> tuple[Array, Array]:
    stack = Stack(lib, x)
    values = stack.empty(stack.rows, dtype=stack.real)

    def factor(library: DeviceMath, a: ArrayInfo, values: ArrayInfo, codes: ArrayInfo, *, stream: Any) -> None:
        library.eigh(
            a, values, codes, with_vectors=with_vectors, is_one_operation=stack.is_one_operation, stream=stream
        )

    stack.call("eigh", [stack.data, values, stack.codes], factor)
    return stack.result(values), stack.by_rows(stack.data) if with_vectors else stack.data


def eigvalsh(lib: Primitives, x: Array) -> Array:
    return eigh(lib, x, with_vectors=False)[0]


def eig(lib: Primitives, x: Array, *, with_vectors: bool = True) -> tuple[Array, ...]:
    stack = Stack(lib, x)
    kind = np.result_type(stack.dtype, np.complex64)
    values = stack.empty(stack.rows, dtype=kind)
    vectors = [stack.empty(stack.rows, stack.rows)] if with_vectors else []

    def factor(
        library: DeviceMath, a: ArrayInfo, values: ArrayInfo, codes: ArrayInfo, *found: ArrayInfo, stream: Any
    ) -> None:
        library.eig(a, values, codes, found[0] if found else None, stream=stream)

    stack.call("eig", [stack.data, values, stack.codes, *vectors], factor)
    if not with_vectors:
        return (stack.result(values),)
    (columns,) = vectors
    if stack.dtype != kind:
        columns = stack.empty(stack.rows, stack.rows, dtype=kind)
        _paired(kind)(*vectors, values, stack.rows, columns)
    return stack.result(values), stack.by_rows(columns)


def eigvals(lib: Primitives, x: Array) -> Array:
    return eig(lib, x, with_vectors=False)[0]


def svd(lib: Primitives, x: Array, *, full_matrices: bool, with_vectors: bool = True) -> tuple[Array, ...]:
    """The library wants no more columns than rows: of other matrices it factors the transposed ones."""
    shape = lib.info(x).shape
    is_transposed = shape[-1] > shape[-2]
    stack = Stack(lib, x, is_transposed=is_transposed)
    is_small = stack.count > 1 and stack.rows <= MOST_SMALL
    values = stack.empty(stack.columns, dtype=stack.real)
    vectors: list[Array] = []
    if with_vectors or is_small:
        left = stack.empty(stack.rows if full_matrices or is_small else stack.columns, stack.rows)
        vectors = [left, stack.empty(stack.columns, stack.columns)]

    def factor(
        library: DeviceMath, a: ArrayInfo, values: ArrayInfo, codes: ArrayInfo, *found: ArrayInfo, stream: Any
    ) -> None:
        if is_small:
            library.small_svd(a, values, codes, (found[0], found[1]), with_vectors=with_vectors, stream=stream)
        else:
            library.svd(a, values, codes, (found[0], found[1]) if found else None, stream=stream)

    stack.call("svd", [stack.data, values, stack.codes, *vectors], factor)
    singular = stack.result(values)
    if not with_vectors:
        return (singular,)
    if is_small:  # which gives all left vectors, and the right ones as they are
        vectors = [
            vectors[0] if full_matrices else part(lib, vectors[0], 1, 0, stack.columns),
            _adjoint(lib, vectors[1]),
        ]
    if is_transposed:  # what lies by columns there, lies by rows here
        return stack.result(vectors[1]), singular, stack.result(vectors[0])
    return stack.by_rows(vectors[0]), singular, stack.by_rows(vectors[1])


def svdvals(lib: Primitives, x: Array) -> Array:
    return svd(lib, x, full_matrices=False, with_vectors=False)[0]


# --- by singular values


def _least(lib: Primitives, x: Array, values: Array, rtol: Any) -> Array:
    """The value up to which singular values count as 0, for each matrix, with an axis of one element."""
    info = lib.info(x)
    if rtol is None:
        rtol = max(info.shape[-2:]) * float(np.finfo(info.dtype).eps)
    elif lib.is_array(rtol):
        rtol = shaping.expand_dims(lib, rtol, -1)
    greatest = reductions.reduction(lib, "max")(values, axis=-1, keepdims=True)
    return elementwise.binary_kernel("multiply")(greatest, rtol)


def pinv(lib: Primitives, x: Array, *, rtol: Any) -> Array:
    left, values, right = svd(lib, x, full_matrices=False)
    is_great = elementwise.binary_kernel("greater")(values, _least(lib, x, values, rtol))
    inverse = selecting.where(lib, is_great, elementwise.unary_kernel("reciprocal")(values), 0)
    rows = elementwise.binary_kernel("multiply")(shaping.expand_dims(lib, inverse, -1), _adjoint(lib, left))
    return products.matmul(lib, _adjoint(lib, right), rows)


def _adjoint(lib: Primitives, x: Array) -> Array:
    turned = shaping.matrix_transpose(lib, x)
    return elementwise.unary_kernel("conj")(turned) if lib.info(x).dtype.kind == "c" else turned


def matrix_rank(lib: Primitives, x: Array, *, rtol: Any) -> Array:
    values = svdvals(lib, x)
    is_great = elementwise.binary_kernel("greater")(values, _least(lib, x, values, rtol))
    return reductions.reduction(lib, "count_nonzero")(is_great, axis=-1)
