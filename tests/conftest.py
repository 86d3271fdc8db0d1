"""One hypothesis profile for all tests: no deadline (the machine may be busy), 300 examples."""

import os

from hypothesis import settings

settings.register_profile(
    "anymix", max_examples=300, deadline=None, derandomize="CI" in os.environ, print_blob=True
)
settings.load_profile("anymix")
