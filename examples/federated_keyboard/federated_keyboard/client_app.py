"""The phones: from the word before, suggest the next; each has typed chats, mails and web pages."""

from typing import Any

import numpy as np
from flwr.app import Context

from anymix.flower import client_app

from .text import WORDS, typed


def load(context: Context) -> tuple[Any, Any, Any]:
    """One row for every pair of neighbouring words: (before, one-hot), next, domain."""
    before, after, domains = [], [], []
    for domain, phrases in typed(int(context.node_config["partition-id"])).items():
        for phrase in phrases:
            words = phrase.split()
            before += words[:-1]
            after += words[1:]
            domains += [domain] * (len(words) - 1)
    X = np.array(before)[:, None] == np.array(WORDS)
    return X.astype(float), after, domains


app = client_app(load, classes=WORDS)
