"""The phones: from the word before, suggest the next; each has typed chats, mails and web pages."""

from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

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


def load_real(context: Context) -> tuple[Any, Any, Any]:
    """Rows of real text, of films and of newspapers."""
    from .real_text import typed_for_real

    n_phones = int(context.run_config["num-clients"])
    return typed_for_real(int(context.node_config["partition-id"]), n_phones)


def next_words() -> Any:
    from .real_text import NextWords

    return NextWords()


app = ClientApp()
generated = client_app(load, classes=WORDS)
real = client_app(load_real, next_words, lambda losses, y: losses)


def chosen(message: Message, context: Context) -> Message:
    """Answer as the linear model of generated text or as the LSTM of real text."""
    answers = real if context.run_config.get("text") == "real" else generated
    return answers(message, context)


app.query()(chosen)
for question in ("first", "moments", "solve"):
    app.query(question)(chosen)
app.train()(chosen)
app.evaluate()(chosen)
