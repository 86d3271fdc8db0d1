"""The cryptography of a masked sum: keys, masks that cancel, and shares of a secret.

Client i sends, modulo 2⁶⁴,

    y_i = x_i + G(b_i) + Σ_{j>i} G(s_ij) − Σ_{j<i} G(s_ij)

G is AES-256 in counter mode, s_ij a seed that only i and j know, and b_i a secret of its own, of
which every other client holds a share. The s_ij cancel in the sum over all clients, and only there;
the b_i are found from the shares of `threshold` clients (Bonawitz et al., Practical secure
aggregation for privacy-preserving machine learning, 2017). s_ij is made of the keys of both
(X25519) and of the question: the answer to one question is of no use for another.

Flower's own SecAgg+ is not used: its masks come from a seed of 32 bits, which can be tried out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

Words = NDArray[np.uint64]

__all__ = [
    "SEALED",
    "SHARE",
    "join",
    "mask",
    "masked",
    "new_key",
    "new_secret",
    "open_share",
    "pair_secret",
    "public_key",
    "seal_share",
    "split",
]

PRIME = 2**255 - 19  # shares are numbers modulo this
SHARE = 32  # bytes of a share
SEALED = SHARE + 16  # bytes of one that is encrypted


def new_key() -> bytes:
    """A private key, 32 bytes."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """The public half of a private key, 32 bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def pair_secret(private: bytes, public: bytes, word: str = "") -> bytes:
    """What two clients know and nobody else, from the private key of one and the other's public.

    Parameters
    ----------
    private, public : bytes
        The keys; ValueError if `public` is none.
    word : str
        A secret of all clients that the server does not know. With it, a server that puts keys of
        its own in the place of the clients' learns nothing.

    Returns
    -------
    bytes

    Examples
    --------
    >>> a, b = new_key(), new_key()
    >>> pair_secret(a, public_key(b)) == pair_secret(b, public_key(a))
    True
    >>> pair_secret(a, public_key(b), "word") == pair_secret(b, public_key(a))
    False
    """
    key = X25519PrivateKey.from_private_bytes(private)
    shared = key.exchange(X25519PublicKey.from_public_bytes(public))
    return hmac.digest(hashlib.sha256(word.encode()).digest(), shared, "sha256")


def mask(seed: bytes, n: int) -> Words:
    """n numbers that look random to all who do not know the seed of 32 bytes."""
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * n)), dtype="<u8").astype(np.uint64, copy=False)


def masked(words: Words, own: bytes, me: str, pairs: Mapping[str, bytes], question: bytes) -> Words:
    """y_i, from x_i, b_i, the client's name, its pair secrets, and the digest of the question.

    Examples
    --------
    >>> a, b = new_key(), new_key()
    >>> s, x = pair_secret(a, public_key(b)), np.array([5, 7], dtype=np.uint64)
    >>> ya = masked(x, b"A" * 32, "a", {"b": s}, b"question")
    >>> yb = masked(x, b"B" * 32, "b", {"a": s}, b"question")
    >>> (ya + yb - mask(b"A" * 32, 2) - mask(b"B" * 32, 2)).tolist()
    [10, 14]
    """
    total = words.ravel() + mask(own, words.size)
    for name, secret in pairs.items():
        seed = hmac.digest(secret, b"mask" + question, "sha256")
        if me < name:
            total += mask(seed, words.size)
        else:
            total -= mask(seed, words.size)
    return total.reshape(words.shape)


# -- shares of a secret (Shamir) ---------------------------------------------------------------


def new_secret() -> bytes:
    """A secret that can be split, 32 bytes."""
    return secrets.randbelow(PRIME).to_bytes(SHARE, "big")


def split(secret: bytes, threshold: int, n: int) -> list[bytes]:
    """n shares of a secret of 32 bytes below 2²⁵⁵ − 19, any `threshold` of which give it back.

    Examples
    --------
    >>> secret = (123456789).to_bytes(32, "big")
    >>> shares = split(secret, 2, 3)
    >>> join({1: shares[0], 3: shares[2]}) == secret
    True
    >>> join({1: shares[0]}) == secret
    False
    """
    first = int.from_bytes(secret, "big")
    rest = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return [_value([first, *rest], x).to_bytes(SHARE, "big") for x in range(1, n + 1)]


def _value(coefficients: Sequence[int], x: int) -> int:
    """The polynomial at x, modulo the prime."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def join(shares: Mapping[int, bytes]) -> bytes:
    """The secret, from shares by their number, which begins with 1: the polynomial at 0."""
    parts = zip(shares.values(), _weights(tuple(shares)), strict=True)
    total = sum(int.from_bytes(share, "big") * weight for share, weight in parts)
    return (total % PRIME).to_bytes(SHARE, "big")


@lru_cache(maxsize=16)
def _weights(numbers: tuple[int, ...]) -> list[int]:
    """Lagrange's weights of the values at these numbers, for the value at 0."""
    weights = []
    for i in numbers:
        above = below = 1
        for j in numbers:
            if j != i:
                above, below = above * j % PRIME, below * (j - i) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights


def seal_share(share: bytes, secret: bytes, sender: str, question: bytes) -> bytes:
    """A share, readable for one client only, and for this question only.

    The key is used for this one share, so that a fixed nonce does.
    """
    key = hmac.digest(secret, b"share" + sender.encode() + question, "sha256")
    return AESGCM(key).encrypt(bytes(12), share, None)


def open_share(sealed: bytes, secret: bytes, sender: str, question: bytes) -> bytes | None:
    """The share; None if it was not sealed by this sender for this question."""
    key = hmac.digest(secret, b"share" + sender.encode() + question, "sha256")
    try:
        return AESGCM(key).decrypt(bytes(12), sealed, None)
    except InvalidTag:
        return None
