"""Fashion-MNIST shows the pictures of its files."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anymix import datasets


def test_fashion_is_all_there(cache: Path) -> None:
    data = datasets.load_fashion()
    assert data.X.shape == (60000, 784)
    assert data.X_test.shape == (10000, 784)
    assert data.X.dtype == np.float64
    assert np.bincount(data.y).tolist() == [6000] * 10
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    assert (data.name, data.licence) == ("fashion", "MIT")
    assert len(data.feature_names) == 784


@pytest.mark.parametrize("split", ["train", "t10k"])
def test_fashion_pictures_are_those_of_the_file(cache: Path, split: str) -> None:
    images = (cache / "fashion" / f"{split}-images-idx3-ubyte").read_bytes()
    labels = (cache / "fashion" / f"{split}-labels-idx1-ubyte").read_bytes()
    magic, n, height, width = struct.unpack_from(">4I", images)
    assert (magic, height, width) == (2051, 28, 28)
    assert struct.unpack_from(">2I", labels) == (2049, n)
    chosen = [i for i in range(n) if labels[8 + i] in (0, 2, 6)]

    data = datasets.load_fashion(classes=("shirt", "t-shirt/top", "pullover"))
    X, y, domains = (
        (data.X, data.y, data.domains)
        if split == "train"
        else (data.X_test, data.y_test, data.domains_test)
    )
    assert y.tolist() == [labels[8 + i] for i in chosen]
    assert domains.tolist() == [{0: "t-shirt/top", 2: "pullover", 6: "shirt"}[k] for k in y]
    for row in range(0, len(chosen), 97):
        start = 16 + 784 * chosen[row]
        np.testing.assert_allclose(X[row] * 255, list(images[start : start + 784]), rtol=1e-15)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(("shirt", "hat"), "'hat'"), ("hat", "'hat'"), ((), "empty"), ((6,), "classes holds 6")],
)
def test_fashion_bad_classes(folder: Path, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_fashion(classes=classes)
    assert not folder.exists()
