"""Functions of published users of the Array API, on a backend's arrays and on NumPy's: a program of its own process.

    SCIPY_ARRAY_API=1 python -m tests.arrays.published LIBRARY BACKEND

It prints a line of JSON: for each function "same", or the name of the error that it raised.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

Calls = dict[str, Callable[[Any, Any], Any]]
"""By name: each is given a matrix of positive numbers, and a vector of classes 0 and 1."""


def scipy_calls() -> Calls:
    from scipy import constants, differentiate, fft, integrate, optimize, signal, special, stats
    from scipy.cluster.vq import whiten
    from scipy.spatial.transform import Rotation

    return {
        "stats.zscore": lambda x, c: stats.zscore(x), "stats.skew": lambda x, c: stats.skew(x),
        "stats.kurtosis": lambda x, c: stats.kurtosis(x), "stats.gmean": lambda x, c: stats.gmean(x),
        "stats.variation": lambda x, c: stats.variation(x), "stats.sem": lambda x, c: stats.sem(x),
        "stats.describe": lambda x, c: stats.describe(x).variance, "stats.tmean": lambda x, c: stats.tmean(x),
        "stats.moment": lambda x, c: stats.moment(x, order=3), "stats.hmean": lambda x, c: stats.hmean(x),
        "fft.rfftn": lambda x, c: fft.rfftn(x), "fft.fftshift": lambda x, c: fft.fftshift(x),
        "signal.hilbert": lambda x, c: signal.hilbert(x[:, 0]),
        "signal.fftconvolve": lambda x, c: signal.fftconvolve(x[:, 0], x[:, 1]),
        "special.logsumexp": lambda x, c: special.logsumexp(x, axis=0),
        "special.softmax": lambda x, c: special.softmax(x, axis=0),
        "integrate.trapezoid": lambda x, c: integrate.trapezoid(x, axis=0),
        "integrate.tanhsinh": lambda x, c: integrate.tanhsinh(lambda a, b: a * b, x * 0, x, args=(x,)).integral,
        "differentiate.derivative": lambda x, c: differentiate.derivative(lambda a: a**3, x).df,
        "optimize.rosen": lambda x, c: optimize.rosen(x), "cluster.vq.whiten": lambda x, c: whiten(x),
        "constants.convert_temperature": lambda x, c: constants.convert_temperature(x, "Celsius", "Kelvin"),
        "spatial.Rotation.apply": lambda x, c: Rotation.from_rotvec(x).apply(x),
        "special.gammaln": lambda x, c: special.gammaln(x),
        "stats.ttest_ind": lambda x, c: stats.ttest_ind(x, x + 1).pvalue,
    }  # fmt: skip


def sklearn_calls() -> Calls:
    import sklearn
    from sklearn import decomposition, linear_model, metrics, preprocessing

    # The search for NaN asks for the value of an array, which the simulator refuses.
    sklearn.set_config(array_api_dispatch=True, assume_finite=True)
    return {
        "metrics.r2_score": lambda x, c: metrics.r2_score(x[:, 0], x[:, 1]),
        "metrics.mean_squared_error": lambda x, c: metrics.mean_squared_error(x[:, 0], x[:, 1]),
        "metrics.accuracy_score": lambda x, c: metrics.accuracy_score(c, c),
        "metrics.euclidean_distances": lambda x, c: metrics.pairwise.euclidean_distances(x),
        "metrics.cosine_similarity": lambda x, c: metrics.pairwise.cosine_similarity(x),
        "metrics.rbf_kernel": lambda x, c: metrics.pairwise.rbf_kernel(x),
        "MinMaxScaler": lambda x, c: preprocessing.MinMaxScaler().fit_transform(x),
        "MaxAbsScaler": lambda x, c: preprocessing.MaxAbsScaler().fit_transform(x),
        "StandardScaler": lambda x, c: preprocessing.StandardScaler().fit_transform(x),
        "Normalizer": lambda x, c: preprocessing.Normalizer().fit_transform(x),
        "PolynomialFeatures": lambda x, c: preprocessing.PolynomialFeatures(2).fit_transform(x),
        "PCA": lambda x, c: abs(decomposition.PCA(2, svd_solver="full").fit_transform(x)),
        "Ridge": lambda x, c: linear_model.Ridge(solver="svd").fit(x, x[:, 0]).coef_,
    }


def main(library: str, backend: str) -> None:
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
    calls = {"scipy": scipy_calls, "sklearn": sklearn_calls}[library]()
    matrix = np.random.default_rng(0).random((40, 3)) + 1
    classes = (matrix[:, 0] > 1.5).astype("int64")
    found = {}
    with xl.use_backend(backend):
        for name, call in calls.items():
            expected = np.asarray(call(matrix.copy(), classes.copy()))
            try:
                result = call(xl.to_device(matrix), xl.to_device(classes))
            except Exception as error:
                found[name] = type(error).__name__
                continue
            there: Any = result if isinstance(result, (float, np.generic)) else xl.to_host(result)
            np.testing.assert_allclose(there, expected, rtol=1e-6, atol=1e-12, err_msg=name)
            found[name] = "same"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
