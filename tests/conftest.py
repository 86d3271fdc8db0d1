"""One hypothesis profile for all tests: no deadline (the machine may be busy), 300 examples.

`make test` tries the same examples every time, `make quick` a tenth of them; `make test-all` draws
new ones. scikit-learn's own checks run for two classes by default, for all in `make test-all`.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile(
    "anymix",
    max_examples=30 if "QUICK" in os.environ else 300,
    deadline=None,
    derandomize="NEW_EXAMPLES" not in os.environ,
    print_blob=True,
)
settings.load_profile("anymix")

CHECKED = {"AgnosticClassifier()", "AgnosticRegressor()"}


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """scikit-learn's checks of any other class are slow tests."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if "check" in given and "estimator" in given and repr(given["estimator"]) not in CHECKED:
            item.add_marker(pytest.mark.slow)
