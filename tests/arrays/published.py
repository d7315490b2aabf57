"""Functions of published users of the Array API, on a backend's arrays and on NumPy's: a program of its own process.

    SCIPY_ARRAY_API=1 python -m tests.arrays.published LIBRARY BACKEND

It prints a line of JSON: for each function "same", or the name of the error that it raised.
"""

from __future__ import annotations

import json
import operator
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

Call = Callable[[Any, Any], Any]
"""A call with a matrix ``x`` of positive numbers, and a vector ``c`` of classes 0 and 1."""

SCIPY = {
    "x": (
        "stats.zscore stats.skew stats.kurtosis stats.gmean stats.variation stats.sem stats.tmean stats.hmean"
        " stats.gzscore fft.rfftn fft.fftshift fft.hfftn fft.ifft2 signal.hilbert2 optimize.rosen special.gammaln"
        " cluster.vq.whiten"
    ),
    "x, axis=0": (
        "special.logsumexp special.softmax special.log_softmax integrate.trapezoid integrate.cumulative_trapezoid"
        " integrate.cumulative_simpson stats.circmean stats.circvar stats.gstd stats.iqr stats.median_abs_deviation"
        " stats.rankdata stats.tstd"
    ),
    "x[:, 0]": (
        "signal.hilbert stats.differential_entropy stats.kstat stats.kstatvar optimize.rosen_der optimize.rosen_hess"
        " linalg.fiedler"
    ),
    "0.5, x[:, 0]": "stats.boxcox_llf stats.yeojohnson_llf",
    "x[:, 0], x[:, 1]": "signal.fftconvolve",
    "x[:, 0], x[:, 1], method='fft'": "signal.correlate signal.convolve",
    "x, order=3": "stats.moment",
    "lambda a, b: a * b, x * 0, x, args=(x,)": "integrate.tanhsinh:integral",
    "lambda a: a**3, x": "differentiate.derivative:df",
    "x, 'Celsius', 'Kelvin'": "constants.convert_temperature",
    "x[:, 0] / 3": "stats.false_discovery_control",
    "c": "stats.mode:mode",
    "x, 2.0": "stats.pmean",
    "x[:, 0], 0.3": "stats.quantile",
    "x, 1.9, axis=0": "stats.tmax",
    "x, 1.1, axis=0": "stats.tmin",
    "x, 0.1": "stats.trim_mean",
    "x[:4], x": "stats.zmap",
    "x[:, 0], x[:8, 1]": "signal.oaconvolve",
    "x[:, 0], 20": "signal.resample",
    "5, 2": "signal.savgol_coeffs",
    "x[:, 0], (1, None)": "signal.envelope",
    "x[:33], axis=0": "integrate.romb",
    "x[:2], x[:3]": "linalg.block_diag",
    "x[:, 0], 0.1, 0.0": "fft.fht",
    "x, x": "special.xlogy",
    "x, x + 1": "stats.ttest_ind:pvalue",
}
"""Functions by their arguments; behind a colon is a field of the result."""
SKLEARN = {
    "x[:, 0], x[:, 1]": (
        "r2_score mean_squared_error d2_tweedie_score explained_variance_score max_error mean_absolute_error"
        " mean_absolute_percentage_error mean_gamma_deviance mean_pinball_loss mean_poisson_deviance"
        " mean_squared_log_error median_absolute_error root_mean_squared_error root_mean_squared_log_error"
    ),
    "c, 1 - c": (
        "balanced_accuracy_score brier_score_loss cohen_kappa_score confusion_matrix f1_score hamming_loss"
        " jaccard_score precision_score recall_score zero_one_loss"
    ),
    "c, c": "accuracy_score",
    "c, x[:, 0] / 3": "log_loss",
    "c, x[:, 1]": "roc_auc_score average_precision_score",
    "x": (
        "pairwise.euclidean_distances pairwise.cosine_similarity pairwise.rbf_kernel pairwise.additive_chi2_kernel"
        " pairwise.chi2_kernel pairwise.cosine_distances pairwise.laplacian_kernel pairwise.linear_kernel"
        " pairwise.manhattan_distances pairwise.polynomial_kernel pairwise.sigmoid_kernel"
    ),
    "x, x * 2": "pairwise.paired_euclidean_distances pairwise.paired_cosine_distances",
}
"""Functions of `sklearn.metrics`."""


def listed(module: Any, table: dict[str, str]) -> dict[str, Call]:
    """The calls of a table, by the names of their functions."""
    found: dict[str, Call] = {}
    for arguments, functions in table.items():
        for name, _, field in (each.partition(":") for each in functions.split()):
            result = f"lambda x, c: function({arguments}){'.' * bool(field)}{field}"
            found[name] = eval(result, {"function": operator.attrgetter(name)(module)})
    return found


def scipy_calls() -> dict[str, Call]:
    import scipy
    from scipy import differentiate, linalg, signal, stats
    from scipy.cluster import vq
    from scipy.spatial.transform import Rotation

    assert differentiate
    assert vq
    return {
        **listed(scipy, SCIPY),
        "stats.describe": lambda x, c: stats.describe(x).variance,
        "stats.directional_stats": lambda x, c: stats.directional_stats(x).mean_direction,
        "stats.sigmaclip": lambda x, c: stats.sigmaclip(x[:, 0]).lower,
        "signal.vectorstrength": lambda x, c: signal.vectorstrength(x[:, 0], 2.0)[0],
        "linalg.orthogonal_procrustes": lambda x, c: linalg.orthogonal_procrustes(x, x * 2)[0],
        "spatial.Rotation.apply": lambda x, c: Rotation.from_rotvec(x).apply(x),
        "spatial.Rotation.mean": lambda x, c: Rotation.from_rotvec(x).mean().as_matrix(),
        "spatial.Rotation.as_euler": lambda x, c: Rotation.from_rotvec(x / 3).as_euler("xyz"),
    }


def sklearn_calls() -> dict[str, Call]:
    import sklearn
    from sklearn import decomposition, discriminant_analysis, linear_model, metrics, mixture, naive_bayes, preprocessing

    # The search for NaN asks for the value of an array, which the simulator refuses.
    sklearn.set_config(array_api_dispatch=True, assume_finite=True)
    return {
        **{f"metrics.{name.removeprefix('pairwise.')}": call for name, call in listed(metrics, SKLEARN).items()},
        "metrics.roc_curve": lambda x, c: metrics.roc_curve(c, x[:, 1])[0],
        "Binarizer": lambda x, c: preprocessing.Binarizer(threshold=1.5).fit_transform(x),
        "KernelCenterer": lambda x, c: preprocessing.KernelCenterer().fit_transform(x @ x.T),
        "LabelEncoder": lambda x, c: preprocessing.LabelEncoder().fit_transform(c),
        "GaussianNB": lambda x, c: naive_bayes.GaussianNB().fit(x, c).predict_proba(x),
        "LinearDiscriminantAnalysis": lambda x, c: (
            discriminant_analysis.LinearDiscriminantAnalysis().fit(x, c).decision_function(x)
        ),
        "GaussianMixture": lambda x, c: (
            mixture.GaussianMixture(init_params="random", random_state=0, max_iter=3).fit(x).means_
        ),
        "RidgeClassifier": lambda x, c: linear_model.RidgeClassifier(solver="svd").fit(x, c).coef_,
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
