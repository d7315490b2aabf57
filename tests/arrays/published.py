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
    from scipy import constants, differentiate, fft, integrate, linalg, optimize, signal, special, stats
    from scipy.cluster.vq import whiten
    from scipy.spatial.transform import Rotation

    return {
        "stats.zscore": lambda x, c: stats.zscore(x),
        "stats.skew": lambda x, c: stats.skew(x),
        "stats.kurtosis": lambda x, c: stats.kurtosis(x),
        "stats.gmean": lambda x, c: stats.gmean(x),
        "stats.variation": lambda x, c: stats.variation(x),
        "stats.sem": lambda x, c: stats.sem(x),
        "stats.describe": lambda x, c: stats.describe(x).variance,
        "stats.tmean": lambda x, c: stats.tmean(x),
        "stats.moment": lambda x, c: stats.moment(x, order=3),
        "stats.hmean": lambda x, c: stats.hmean(x),
        "fft.rfftn": lambda x, c: fft.rfftn(x),
        "fft.fftshift": lambda x, c: fft.fftshift(x),
        "signal.hilbert": lambda x, c: signal.hilbert(x[:, 0]),
        "signal.fftconvolve": lambda x, c: signal.fftconvolve(x[:, 0], x[:, 1]),
        "special.logsumexp": lambda x, c: special.logsumexp(x, axis=0),
        "special.softmax": lambda x, c: special.softmax(x, axis=0),
        "integrate.trapezoid": lambda x, c: integrate.trapezoid(x, axis=0),
        "integrate.tanhsinh": lambda x, c: integrate.tanhsinh(lambda a, b: a * b, x * 0, x, args=(x,)).integral,
        "differentiate.derivative": lambda x, c: differentiate.derivative(lambda a: a**3, x).df,
        "optimize.rosen": lambda x, c: optimize.rosen(x),
        "cluster.vq.whiten": lambda x, c: whiten(x),
        "constants.convert_temperature": lambda x, c: constants.convert_temperature(x, "Celsius", "Kelvin"),
        "spatial.Rotation.apply": lambda x, c: Rotation.from_rotvec(x).apply(x),
        "stats.boxcox_llf": lambda x, c: stats.boxcox_llf(0.5, x[:, 0]),
        "stats.circmean": lambda x, c: stats.circmean(x, axis=0),
        "stats.circvar": lambda x, c: stats.circvar(x, axis=0),
        "stats.differential_entropy": lambda x, c: stats.differential_entropy(x[:, 0]),
        "stats.directional_stats": lambda x, c: stats.directional_stats(x).mean_direction,
        "stats.false_discovery_control": lambda x, c: stats.false_discovery_control(x[:, 0] / 3),
        "stats.gstd": lambda x, c: stats.gstd(x, axis=0),
        "stats.gzscore": lambda x, c: stats.gzscore(x),
        "stats.iqr": lambda x, c: stats.iqr(x, axis=0),
        "stats.kstat": lambda x, c: stats.kstat(x[:, 0]),
        "stats.kstatvar": lambda x, c: stats.kstatvar(x[:, 0]),
        "stats.median_abs_deviation": lambda x, c: stats.median_abs_deviation(x, axis=0),
        "stats.mode": lambda x, c: stats.mode(c).mode,
        "stats.pmean": lambda x, c: stats.pmean(x, 2.0),
        "stats.quantile": lambda x, c: stats.quantile(x[:, 0], 0.3),
        "stats.rankdata": lambda x, c: stats.rankdata(x, axis=0),
        "stats.sigmaclip": lambda x, c: stats.sigmaclip(x[:, 0]).lower,
        "stats.tmax": lambda x, c: stats.tmax(x, 1.9, axis=0),
        "stats.tmin": lambda x, c: stats.tmin(x, 1.1, axis=0),
        "stats.trim_mean": lambda x, c: stats.trim_mean(x, 0.1),
        "stats.tstd": lambda x, c: stats.tstd(x, axis=0),
        "stats.yeojohnson_llf": lambda x, c: stats.yeojohnson_llf(0.5, x[:, 0]),
        "stats.zmap": lambda x, c: stats.zmap(x[:4], x),
        "signal.correlate": lambda x, c: signal.correlate(x[:, 0], x[:, 1], method="fft"),
        "signal.convolve": lambda x, c: signal.convolve(x[:, 0], x[:, 1], method="fft"),
        "signal.oaconvolve": lambda x, c: signal.oaconvolve(x[:, 0], x[:8, 1]),
        "signal.hilbert2": lambda x, c: signal.hilbert2(x),
        "signal.resample": lambda x, c: signal.resample(x[:, 0], 20),
        "signal.vectorstrength": lambda x, c: signal.vectorstrength(x[:, 0], 2.0)[0],
        "signal.savgol_coeffs": lambda x, c: signal.savgol_coeffs(5, 2),
        "signal.envelope": lambda x, c: signal.envelope(x[:, 0], (1, None)),
        "integrate.cumulative_trapezoid": lambda x, c: integrate.cumulative_trapezoid(x, axis=0),
        "integrate.cumulative_simpson": lambda x, c: integrate.cumulative_simpson(x, axis=0),
        "integrate.romb": lambda x, c: integrate.romb(x[:33], axis=0),
        "optimize.rosen_der": lambda x, c: optimize.rosen_der(x[:, 0]),
        "optimize.rosen_hess": lambda x, c: optimize.rosen_hess(x[:, 0]),
        "linalg.block_diag": lambda x, c: linalg.block_diag(x[:2], x[:3]),
        "linalg.fiedler": lambda x, c: linalg.fiedler(x[:, 0]),
        "linalg.orthogonal_procrustes": lambda x, c: linalg.orthogonal_procrustes(x, x * 2)[0],
        "fft.fht": lambda x, c: fft.fht(x[:, 0], 0.1, 0.0),
        "fft.hfftn": lambda x, c: fft.hfftn(x),
        "fft.ifft2": lambda x, c: fft.ifft2(x),
        "spatial.Rotation.mean": lambda x, c: Rotation.from_rotvec(x).mean().as_matrix(),
        "spatial.Rotation.as_euler": lambda x, c: Rotation.from_rotvec(x / 3).as_euler("xyz"),
        "special.log_softmax": lambda x, c: special.log_softmax(x, axis=0),
        "special.xlogy": lambda x, c: special.xlogy(x, x),
        "special.gammaln": lambda x, c: special.gammaln(x),
        "stats.ttest_ind": lambda x, c: stats.ttest_ind(x, x + 1).pvalue,
    }


def sklearn_calls() -> Calls:
    import sklearn
    from sklearn import decomposition, discriminant_analysis, linear_model, metrics, mixture, naive_bayes, preprocessing

    # The search for NaN asks for the value of an array, which the simulator refuses.
    sklearn.set_config(array_api_dispatch=True, assume_finite=True)
    return {
        "metrics.r2_score": lambda x, c: metrics.r2_score(x[:, 0], x[:, 1]),
        "metrics.mean_squared_error": lambda x, c: metrics.mean_squared_error(x[:, 0], x[:, 1]),
        "metrics.accuracy_score": lambda x, c: metrics.accuracy_score(c, c),
        "metrics.euclidean_distances": lambda x, c: metrics.pairwise.euclidean_distances(x),
        "metrics.cosine_similarity": lambda x, c: metrics.pairwise.cosine_similarity(x),
        "metrics.rbf_kernel": lambda x, c: metrics.pairwise.rbf_kernel(x),
        **{
            f"metrics.{name}": lambda x, c, name=name: getattr(metrics, name)(x[:, 0], x[:, 1])
            for name in (
                "d2_tweedie_score",
                "explained_variance_score",
                "max_error",
                "mean_absolute_error",
                "mean_absolute_percentage_error",
                "mean_gamma_deviance",
                "mean_pinball_loss",
                "mean_poisson_deviance",
                "mean_squared_log_error",
                "median_absolute_error",
                "root_mean_squared_error",
                "root_mean_squared_log_error",
            )
        },
        **{
            f"metrics.{name}": lambda x, c, name=name: getattr(metrics, name)(c, 1 - c)
            for name in (
                "balanced_accuracy_score",
                "brier_score_loss",
                "cohen_kappa_score",
                "confusion_matrix",
                "f1_score",
                "hamming_loss",
                "jaccard_score",
                "precision_score",
                "recall_score",
                "zero_one_loss",
            )
        },
        "metrics.log_loss": lambda x, c: metrics.log_loss(c, x[:, 0] / 3),
        "metrics.roc_auc_score": lambda x, c: metrics.roc_auc_score(c, x[:, 1]),
        "metrics.roc_curve": lambda x, c: metrics.roc_curve(c, x[:, 1])[0],
        "metrics.average_precision_score": lambda x, c: metrics.average_precision_score(c, x[:, 1]),
        **{
            f"metrics.{name}": lambda x, c, name=name: getattr(metrics.pairwise, name)(x)
            for name in (
                "additive_chi2_kernel",
                "chi2_kernel",
                "cosine_distances",
                "laplacian_kernel",
                "linear_kernel",
                "manhattan_distances",
                "polynomial_kernel",
                "sigmoid_kernel",
            )
        },
        "metrics.paired_euclidean_distances": lambda x, c: metrics.pairwise.paired_euclidean_distances(x, x * 2),
        "metrics.paired_cosine_distances": lambda x, c: metrics.pairwise.paired_cosine_distances(x, x * 2),
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
