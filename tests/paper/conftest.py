"""The tests of the tables may fetch Fashion-MNIST, if need be out of its Debian package."""

import pytest


@pytest.fixture(autouse=True)
def _fashion_may_come_by_apt_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYMIX_ALLOW_APT", "1")
