"""Fashion-MNIST: which of ten kinds of clothing does a picture show? 70,000 pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anymix.datasets.dataset import Dataset
from anymix.datasets.fetching import Origin, Package, quoted, read_files
from anymix.errors import InputError

__all__ = ["FASHION", "load_fashion"]

_CLASSES = (
    "t-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


FASHION = Origin(
    name="fashion",
    citation="H. Xiao, K. Rasul and R. Vollgraf. Fashion-MNIST: a novel image dataset for "
    "benchmarking machine learning algorithms. arXiv:1708.07747, 2017.",
    licence="MIT",
    # Of the unpacked files: Debian packs the same bytes without the time stamp.
    sums={
        "train-images-idx3-ubyte": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
    address="https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    packing=".gz",
    package=Package("apt-get", "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist/"),
)


def load_fashion(*, classes: Sequence[str] | None = None, progress: bool = True) -> Dataset:
    """Fashion-MNIST: which of ten kinds of clothing does a picture show? 60,000 and 10,000.

    X holds the 28 × 28 pixels in [0, 1], row by row, y the official label 0..9. Each class is a
    domain of its own, named by the class. The paper's experiment takes three of them:
    `load_fashion(classes=("t-shirt/top", "pullover", "shirt"))`.

    Parameters
    ----------
    classes : sequence of str, optional
        Names of the classes to keep, in any order; None keeps all ten (0.4 GB as float64).
    progress : bool
        Say on a terminal that the data are being fetched.

    Returns
    -------
    Dataset
        If the data's address does not answer, apt-get is asked for a Debian package only if the
        environment variable ANYMIX_ALLOW_APT is 1; see `fetch`.

    Examples
    --------
    >>> load_fashion(classes=("shirt", "hat"))
    Traceback (most recent call last):
        ...
    anymix.errors.InputError: classes holds 'hat'; the classes are 't-shirt/top', ...
    """
    labels = _labels(classes)
    files = read_files(FASHION, progress=progress)
    X, y = _split(files, "train", labels)
    X_test, y_test = _split(files, "t10k", labels)
    names = np.array(_CLASSES)
    return Dataset(
        X=X,
        y=y,
        domains=names[y],
        X_test=X_test,
        y_test=y_test,
        domains_test=names[y_test],
        feature_names=tuple(f"pixel {i},{j}" for i in range(28) for j in range(28)),
        name=FASHION.name,
        citation=FASHION.citation,
        licence=FASHION.licence,
    )


def _labels(classes: Sequence[str] | None) -> list[int]:
    """Labels 0..9 of the named classes."""
    classes = _CLASSES if classes is None else classes
    classes = (classes,) if isinstance(classes, str) else classes
    if unknown := [c for c in classes if c not in _CLASSES]:
        fix = f"the classes are {quoted(_CLASSES)}"
        raise InputError("classes", f"holds {unknown[0]!r}", fix)
    if not len(classes):
        raise InputError("classes", "is empty", "name at least one class, or None for all")
    return [_CLASSES.index(c) for c in classes]


def _split(
    files: Mapping[str, bytes], split: str, labels: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pixels (n, 784) in [0, 1] and labels (n,); the idx files open with 16 and 8 other bytes."""
    pixels = np.frombuffer(files[f"{split}-images-idx3-ubyte"], np.uint8, offset=16)
    y = np.frombuffer(files[f"{split}-labels-idx1-ubyte"], np.uint8, offset=8)
    rows = np.isin(y, labels)
    return pixels.reshape(-1, 784)[rows] / 255.0, y[rows].astype(np.int64)
