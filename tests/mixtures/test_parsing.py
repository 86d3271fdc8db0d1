import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anymix as ax
from anymix.mixtures.parsing import mixture_set

NAMES, SIZES = ["north", "south", "west"], np.array([10, 30, 60])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("simplex", ax.Simplex(3)),
        ("data", ax.Point([0.1, 0.3, 0.6])),
        ("chi2:2.0", ax.Chi2Ball(SIZES, 2.0)),
        ("cvar:0.3", ax.cvar([0.1, 0.3, 0.6], 0.3)),
        ("kl:0.05", ax.KLBall([0.1, 0.3, 0.6], 0.05)),
        ("tv:0.2", ax.TVBall([0.1, 0.3, 0.6], 0.2)),
    ],
)
def test_mixtures_by_name(text: str, expected: Any) -> None:
    assert mixture_set(text, NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"north": 0.25, "west": 0.75}, ax.Point([0.25, 0, 0.75])),
        ([{"north": 1}, {"west": 0.5, "south": 0.5}], ax.Hull([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])),
        ({"lower": {"north": 0.2}}, ax.Box([0.2, 0, 0], [1, 1, 1])),
        ({"upper": {"south": 0.5}, "lower": {}}, ax.Box([0, 0, 0], [1, 0.5, 1])),
    ],
)
def test_mixtures_of_a_file(tmp_path: Path, content: Any, expected: Any) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(json.dumps(content))
    assert mixture_set(str(path), NAMES, SIZES) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "read as JSON"),
        ("[]", "no mixture; write .*north"),
        ("3", "holds no mixture"),
        ("[1, 2]", "has '1'; write shares"),
        ('{"north": "all"}', "write shares"),
        ('{"east": 1}', "'east', .*north, south, west"),
        ('{"north": 0.5}', "sum to 1"),
    ],
)
def test_bad_files_of_mixtures(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mixtures.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        mixture_set(str(path), NAMES, SIZES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all", "mixtures is 'all'"),
        ("simplex:2", "mixtures is 'simplex:2'"),
        ("chi2", "as in chi2:2.0"),
        ("tv:x", "as in tv:0.2"),
        ("cvar:7", "mixtures is 'cvar:7'"),
        ("chi2:0.50", "mixtures is 'chi2:0.50'"),
        ("tv:-1", "mixtures is 'tv:-1'"),
        ("kl:-1", "mixtures is 'kl:-1'"),
        ("tv:nan", "mixtures is 'tv:nan'"),
        ("nowhere.json", "read as JSON"),
    ],
)
def test_mixtures_nobody_knows(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixture_set(text, NAMES, SIZES)


def test_a_fault_of_a_file_of_mixtures_names_it(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"north": 0.3, "south": 0.3}')
    with pytest.raises(ValueError, match=r"m\.json: .*sum"):
        mixture_set(str(file), ["north", "south"], [1, 2])
