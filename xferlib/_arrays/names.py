"""The names of the Array API's element-wise functions and reductions, and the operators that stand for them."""

UNARY: tuple[str, ...] = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh", "exp",
    "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "negative",
    "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc",
)  # fmt: skip
BINARY: tuple[str, ...] = (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
    "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter",
    "not_equal", "pow", "remainder", "subtract",
)  # fmt: skip
REDUCTIONS = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min")
ACCUMULATIONS = ("prod", "sum")
DEVIATIONS = ("std", "var")

BINARY_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
METHODS = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")
"""The reductions that are methods too."""
