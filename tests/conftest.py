"""One hypothesis profile for all tests: no deadline (the machine may be busy), 300 examples.

`make test` tries the same examples every time; `make test-all` draws new ones.
"""

import os

from hypothesis import settings

settings.register_profile(
    "anymix",
    max_examples=300,
    deadline=None,
    derandomize="NEW_EXAMPLES" not in os.environ,
    print_blob=True,
)
settings.load_profile("anymix")
