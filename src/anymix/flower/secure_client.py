"""The client's side of secure aggregation: an app that gives nothing but masked sums.

It wraps the app of a client (`client_app`) and answers in its place: every sum over its rows is
masked, and all that would show a sum of its own is refused. What each of its messages tells:

    query           its key, its domains and its model; not how many rows it has
    query.key       a public key, made anew
    query.first     the first weights of a module, which are made of a seed and of no row
    train, evaluate, query.solve, query.folds, query.moments, and query once more: masked sums
    query.shares    shares of the masks of others, once a sum over all who were asked is there
"""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from anymix.errors import InputError
from anymix.flower import masking
from anymix.flower.policy import count
from anymix.flower.privacy import Privacy
from anymix.flower.secure_answers import own_values
from anymix.flower.secure_wire import KEY, SHARES, SUMS, Call, digest, flat
from anymix.flower.wire import FIRST, TRAIN, WHO, Arrays, Settings, pack, unpack

__all__ = ["secured"]

PLACE = "anymix.secure"  # of what a client keeps between messages


def secured(
    app: ClientApp, *, peers: int = 3, word: str = "", privacy: Privacy | None = None
) -> ClientApp:
    """A client that answers with masked sums only, for `Secure`.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        The client's app, made by `client_app`.
    peers : int
        The fewest clients, with itself, whose sum this client takes part in; at least 3, for of
        two clients each knows the other's part.
    word : str
        A secret that all clients know and the server does not. Without one, a server that puts
        keys of its own between the clients, or makes up clients, can read what it should not.
    privacy : Privacy, optional
        The noise that this client insists on: it refuses to train with less, and to answer
        whatever has none.

    Returns
    -------
    flwr.clientapp.ClientApp

    Examples
    --------
    >>> from anymix.flower import AgnosticStrategy, LocalGrid, Secure, client_app
    >>> def load(context):
    ...     here = context.node_config["partition-id"]
    ...     return [[0.0], [1.0], [2.0]], [here % 2, 1, 0], ["east", "west", "west"]
    >>> grid = LocalGrid(secured(client_app(load, classes=[0, 1])), nodes=4)
    >>> strategy = AgnosticStrategy(aggregation=Secure())
    >>> result = strategy.start(grid, num_rounds=30)
    >>> result.history[-1]["agnostic_loss"] < 0.7
    True
    >>> AgnosticStrategy(step_w=1, step_mixture=1).start(grid, num_rounds=1)
    Traceback (most recent call last):
        ...
    anymix.flower.members.MissingClientsError: ... this client answers with masked sums only...
    """
    if count("peers", peers) < 3:
        raise InputError("peers", f"is {peers}", "give 3 or more: two know each other's part")
    return _Secured(app, peers, word, privacy)


class _Secured(ClientApp):
    """See `secured`."""

    def __init__(self, app: ClientApp, peers: int, word: str, privacy: Privacy | None) -> None:
        super().__init__()
        self.app, self.peers, self.word, self.privacy = app, peers, word, privacy

    def __call__(self, message: Message, context: Context) -> Message:
        kind = message.metadata.message_type
        arrays, settings = unpack(message.content)
        if kind == KEY:
            reply: tuple[Arrays, Settings] = {}, {"key": self._new_key(context)}
        elif kind == SHARES:
            reply = self._shares(arrays, settings, context)
        elif kind in SUMS and "secure" in settings:
            reply = self._sum(message, context, arrays, settings)
        elif kind == WHO:
            reply = self._who(message, context, settings)
        elif kind == FIRST:
            return self.app(message, context)
        else:
            raise InputError(
                "this client", "answers with masked sums only", "give the server Secure()"
            )
        return Message(pack(*reply), reply_to=message)

    def _inner(
        self, message: Message, context: Context, kind: str, arrays: Arrays, settings: Settings
    ) -> tuple[Arrays, Settings]:
        """What the app itself answers; it does not leave the client."""
        asked = copy.copy(message)
        asked.__dict__["_metadata"] = copy.copy(message.metadata)
        asked.metadata.message_type, asked.content = kind, pack(arrays, settings)
        return unpack(self.app(asked, context).content)

    def _who(
        self, message: Message, context: Context, settings: Settings
    ) -> tuple[Arrays, Settings]:
        """The client without the numbers of its rows."""
        arrays, about = self._inner(message, context, WHO, {}, settings)
        _keep(context, domains=json.dumps(about["domains"]))
        return {"counts": np.ones_like(arrays["counts"])}, about

    def _new_key(self, context: Context) -> str:
        private = masking.new_key()
        _keep(context, private=private, turn=0, digest=b"", keys="[]", secrets=b"")
        return masking.public_key(private).hex()

    # -- a masked sum --------------------------------------------------------------------------

    def _sum(
        self, message: Message, context: Context, arrays: Arrays, settings: Settings
    ) -> tuple[Arrays, Settings]:
        """The client's sums under masks, and shares of its own mask for all others."""
        call, kind = Call.of(settings), message.metadata.message_type
        kept, question = _kept(context), digest(kind, arrays, settings)
        me = self._check(call, kind, kept)
        pairs = self._pairs(call, kept)

        def inner(kind: str, arrays: Arrays, settings: Settings) -> tuple[Arrays, Settings]:
            return self._inner(message, context, kind, arrays, settings)

        names = kept.get("domains") or json.dumps(inner(WHO, {}, {})[1]["domains"])
        values = own_values(kind, arrays, settings, inner, json.loads(str(names)))
        words, own = call.form.words(flat(values)), masking.new_secret()
        others = {name: secret for name, secret in pairs.items() if name != me}
        y = masking.masked(words, own, me, others, question)
        shares = masking.split(own, call.threshold, len(call.peers))
        sealed = b"".join(
            masking.seal_share(share, pairs[name], me, question)
            for share, name in zip(shares, call.peers, strict=True)
        )
        _keep(
            context,
            turn=call.turn,
            digest=question,
            domains=names,
            peers=json.dumps(call.peers),
            keys=json.dumps(call.keys),
            secrets=b"".join(pairs.values()),
        )
        return {"y": y, "sealed": np.frombuffer(sealed, dtype=np.uint8)}, {}

    def _check(self, call: Call, kind: str, kept: dict[str, Any]) -> str:
        """This client's name among the peers; InputError for what it should not answer."""
        if "private" not in kept:
            raise InputError("this client", "has no key", "ask it for one first")
        public = masking.public_key(kept["private"]).hex()
        n, t = len(call.peers), call.threshold
        if public not in call.keys:
            raise InputError("the list of keys", "lacks that of this client", "ask it for its key")
        if n < self.peers or not n < 2 * t <= 2 * n:
            found = f"is of {n} clients, of which {t} can read it"
            fix = f"ask {self.peers} clients or more, with a threshold of more than half of them"
            raise InputError("the sum", found, fix)
        if call.turn <= int(kept["turn"]):
            raise InputError("the question", "is an old one", "ask a new one")
        if self.privacy is not None and kind != WHO:
            wanted = self.privacy.terms
            asked = {k: (call.limits or {}).get(k) for k in wanted}
            if kind != TRAIN or asked != wanted:
                found = f"{kind!r} has {asked} and not {wanted}"
                raise InputError("the question", found, "give Secure the Privacy of the clients")
        return call.peers[call.keys.index(public)]

    def _pairs(self, call: Call, kept: dict[str, Any]) -> dict[str, bytes]:
        """The secrets with all peers, by name; those known before need no new arithmetic."""
        known, private, pairs = _secrets(kept), kept["private"], {}
        for name, key in zip(call.peers, call.keys, strict=True):
            new = key not in known
            pairs[name] = (
                masking.pair_secret(private, bytes.fromhex(key), self.word) if new else known[key]
            )
        return pairs

    def _shares(
        self, arrays: Arrays, settings: Settings, context: Context
    ) -> tuple[Arrays, Settings]:
        """This client's shares of the masks of all peers; zeros for one that cannot be read."""
        kept = _kept(context)
        question = kept.get("digest", b"")
        if not question or bytes.fromhex(settings["digest"]) != question:
            raise InputError("the question", "is not the last one", "ask for a sum first")
        peers = json.loads(str(kept["peers"]))
        sealed = arrays["sealed"].astype(np.uint8).reshape(len(peers), masking.SEALED)
        shares = [
            masking.open_share(row.tobytes(), secret, name, question)
            for name, secret, row in zip(peers, _secrets(kept).values(), sealed, strict=True)
        ]
        data = b"".join(share or bytes(masking.SHARE) for share in shares)
        return {"shares": np.frombuffer(data, dtype=np.uint8)}, {}


def _secrets(kept: dict[str, Any]) -> dict[str, bytes]:
    """The secrets shared with the peers of the last question, by public key."""
    keys, data = json.loads(str(kept["keys"])), kept["secrets"]
    return {key: data[32 * i : 32 * i + 32] for i, key in enumerate(keys)}


def _kept(context: Context) -> dict[str, Any]:
    """What this client remembers."""
    record = context.state.get(PLACE)
    return dict(record) if isinstance(record, ConfigRecord) else {}


def _keep(context: Context, **values: Any) -> None:
    """Remember some more; Flower keeps it from message to message, on the client."""
    context.state[PLACE] = ConfigRecord({**_kept(context), **values})
