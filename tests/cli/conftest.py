"""A table of people and a model of it, as files."""

from pathlib import Path

import pytest
from command_line import make_people, run


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "people.csv"
    make_people().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(people: Path) -> Path:
    out = people.parent / "model.joblib"
    run("fit", people, "-t", "income", "-d", "region", "--gamma", 0.01, "--out", out, "-q")
    return out
