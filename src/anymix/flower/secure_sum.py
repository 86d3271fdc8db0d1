"""One masked sum: a question to clients, each of whose answers is unreadable, and their total.

Two messages to every client. First the question: all must answer, for the masks between clients
cancel only in the sum over all of them. If somebody does not, the answers are thrown away, without
anyone having asked for the shares that could unmask them, and the question is put anew to the
others, under new masks. Then the shares: those of `threshold` clients are enough.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from anymix.flower import masking
from anymix.flower.post import exchange
from anymix.flower.secure_wire import KEY, SHARES, Call, digest, shapes_of, unflat
from anymix.flower.wire import (
    Arrays,
    MessageError,
    Settings,
    is_unknown,
    n_bytes,
    pack,
    unpack,
)

Array = NDArray[np.float64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

__all__ = ["NO_MASKS", "AbsentError", "MaskedSum", "public_keys"]

NO_MASKS = "it answers without masks"  # a client whose app is not `secured`

log = logging.getLogger("anymix.flower")


class AbsentError(Exception):
    """Clients without whose answers there is no sum, by key, and why; who is at fault is told."""

    def __init__(self, why: Mapping[str, str], liars: bool = False) -> None:
        super().__init__(dict(why))
        self.why, self.liars = dict(why), liars


def public_keys(
    grid: Grid, nodes: Mapping[str, int], timeout: float
) -> tuple[dict[str, str], dict[str, str]]:
    """The public keys of clients, in hexadecimal digits, and why others have none."""
    replies = exchange(grid, [Message(pack({}, {}), i, KEY) for i in nodes.values()], timeout)
    keys, wrong = {}, {}
    for name, node_id in nodes.items():
        reply = replies.get(node_id)
        if reply is not None and is_unknown(reply):
            wrong[name] = NO_MASKS
            continue
        try:
            found = str(_content(reply)[1].get("key"))
            masking.pair_secret(masking.new_key(), bytes.fromhex(found))  # a key at all?
            keys[name] = found
        except (MessageError, ValueError) as error:
            wrong[name] = f"it gave no key: {error}"
    return keys, wrong


@dataclass
class MaskedSum:
    """A masked sum over some clients, and what it cost.

    Attributes
    ----------
    grid : flwr.serverapp.Grid
        Where the clients are.
    nodes : dict of str to int
        The node of each client that is asked.
    timeout : float
        Seconds to wait for answers, each time.
    sent, received : int
        Bytes of the arrays.
    """

    grid: Grid
    nodes: Mapping[str, int]
    timeout: float
    sent: int = field(default=0)
    received: int = field(default=0)

    def ask(
        self,
        kind: str,
        arrays: Arrays,
        settings: Settings,
        n_parameters: int,
        n_columns: int,
    ) -> dict[str, Array]:
        """The totals of the answers to a question; AbsentError says without whom there is none.

        Parameters
        ----------
        kind : str
            The type of the message.
        arrays, settings : dict
            The question, with a `Call` among its settings.
        n_parameters, n_columns : int
            D, and the length of one block of w.
        """
        call, shapes = Call.of(settings), shapes_of(kind, arrays, settings, n_parameters, n_columns)
        n = sum(int(np.prod(shape)) for shape in shapes.values()) + 1
        question = digest(kind, arrays, settings)
        content = pack(arrays, settings)
        replies = self._send(kind, dict.fromkeys(call.peers, content))
        form, y, sealed = call.form, dict[str, Words](), dict[str, Bytes]()
        wrong: dict[str, str] = {}
        for name in call.peers:
            try:
                found = _content(replies.get(self.nodes[name]))[0]
                y[name] = _array(found, "y", (form.n_limbs, n), np.uint64)
                length = masking.SEALED * len(call.peers)
                sealed[name] = _array(found, "sealed", (length,), np.uint8)
            except MessageError as error:
                wrong[name] = str(error)
        if wrong:
            raise AbsentError(wrong)
        total = sum((y[name] for name in call.peers), np.zeros((form.n_limbs, n), np.uint64))
        total = total - self._masks(call, sealed, question, total.size).reshape(total.shape)
        values, asked = unflat(form.numbers(total), shapes)
        if asked != len(call.peers):
            raise AbsentError(dict.fromkeys(call.peers, "the masks do not cancel"))
        return values

    def _masks(self, call: Call, sealed: Mapping[str, Bytes], question: bytes, n: int) -> Words:
        """Σ_i G(b_i), from the shares that enough clients give."""
        table = np.stack([sealed[name] for name in call.peers])  # (from, to · bytes)
        table = table.reshape(len(call.peers), len(call.peers), masking.SEALED)
        rest = {"digest": question.hex()}
        contents = {
            name: pack({"sealed": table[:, j].ravel()}, rest) for j, name in enumerate(call.peers)
        }
        replies = self._send(SHARES, contents)
        shares: dict[int, Bytes] = {}
        wrong: dict[str, str] = {}
        for j, name in enumerate(call.peers):
            try:
                found = _content(replies.get(self.nodes[name]))[0]
                length = masking.SHARE * len(call.peers)
                shares[j + 1] = _array(found, "shares", (length,), np.uint8).reshape(-1, 32)
            except MessageError as error:
                wrong[name] = str(error)
        if len(shares) < call.threshold:
            raise AbsentError(wrong)
        if wrong:
            log.warning("the sum is read without the shares of %s", wrong)
        return self._unmask(call, shares, n)

    def _unmask(self, call: Call, shares: Mapping[int, Bytes], n: int) -> Words:
        total, liars = np.zeros(n, np.uint64), dict[str, str]()
        for i, name in enumerate(call.peers):
            own = {j: table[i].tobytes() for j, table in shares.items() if table[i].any()}
            if len(own) < call.threshold:
                liars[name] = (
                    "the others cannot read its shares: it has not the key it gave, or not their "
                    "word, or was asked another question"
                )
                continue
            few = dict(list(own.items())[: call.threshold])
            total += masking.mask(masking.join(few), n)
        if liars:
            raise AbsentError(liars, liars=True)
        return total

    def _send(self, kind: str, contents: Mapping[str, RecordDict]) -> dict[int, Message]:
        messages = [Message(content, self.nodes[name], kind) for name, content in contents.items()]
        replies = exchange(self.grid, messages, self.timeout)
        self.sent += sum(map(n_bytes, contents.values()))
        self.received += sum(n_bytes(r.content) for r in replies.values() if r.has_content())
        return replies


def _content(reply: Message | None) -> tuple[Arrays, Settings]:
    if reply is None:
        raise MessageError("it does not answer")
    if reply.has_error():
        raise MessageError(f"it failed: {reply.error.reason}")
    return unpack(reply.content)


def _array(found: Arrays, name: str, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    array = found.get(name)
    if array is None or array.shape != shape or array.dtype != dtype:
        form = None if array is None else (array.dtype, array.shape)
        raise MessageError(f"its {name} is {form} and not {dtype.__name__} of {shape}")
    return array
