"""Generated text: what people type in a chat, in mails and on the web."""

import numpy as np

PHRASES = {
    "chat": ["see you soon", "you see", "good see you", "send me the good news soon", "you there"],
    "mail": ["please see the report", "please send the report soon", "see the report please"],
    "web": ["good news", "the good price", "see the price there", "the news", "send me the price"],
}
LENGTHS = {"chat": 120, "mail": 30, "web": 12}  # phrases on a phone: people chat most
WORDS = sorted({word for phrases in PHRASES.values() for p in phrases for word in p.split()})


def typed(phone: int) -> dict[str, list[str]]:
    """The phrases typed on a phone, by domain; every person likes some phrases more than others."""
    rng = np.random.default_rng(phone)
    return {
        domain: rng.choice(
            phrases, size=LENGTHS[domain], p=rng.dirichlet(np.ones(len(phrases)))
        ).tolist()
        for domain, phrases in PHRASES.items()
    }
