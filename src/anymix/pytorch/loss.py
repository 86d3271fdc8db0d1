"""The worst-mixture loss for your own training loop.

w-player   loss = Σ_k λ_k mean_k, a scalar that backpropagates
λ-player   λ ← Π_Λ(λ + γ_λ δ), δ_k the mean loss of domain k since the last step

criterion = AgnosticLoss(Simplex(p), step=0.01)
loss = criterion(losses, domain_ids)    # losses of every row: reduction="none"
loss.backward(); optimizer.step(); criterion.step()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures import Adversary, MixtureSet, Penalty
from anymix.mixtures.checks import count, proportions
from anymix.mixtures.parsing import Mixtures
from anymix.objective import Objective, Parts, objective_of, refuse_parts
from anymix.pytorch.accumulator import (
    Accumulator,
    RowLosses,
    Sums,
    domain_sums,
    no_losses,
    read_rows,
    refuse_sums,
    row_weights,
    weighted_total,
)
from anymix.pytorch.distributed import n_ranks, total
from anymix.pytorch.missing_domains import Absent, Estimates
from anymix.solvers.steps import Schedule, as_function

if TYPE_CHECKING:
    from anymix.pytorch.batches import DomainBatches

Array = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])
is_grad_enabled, is_tracing = torch.is_grad_enabled, torch.compiler.is_dynamo_compiling

__all__ = ["AgnosticLoss"]

SHOWN = {"mixture", "average", "n_steps"}  # the buffers that users read


def outside_graphs(method: Method) -> Method:
    """A break in the graph of torch.compile: NumPy and what is kept between calls are no graph."""

    @wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():  # only then, for `disable` loads all of the compiler
            eager: Any = torch.compiler.disable(method)  # type: ignore[no-untyped-call]
            return eager(*args, **kwargs)
        return method(*args, **kwargs)

    return cast(Method, called)


@final
class AgnosticLoss(nn.Module):
    """Σ_k λ_k mean_k for the model, and a λ that climbs: min_w max_{λ∈Λ} Σ_k λ_k (L_k(w) − b_k).

    Calls count for λ in training mode while gradients are recorded; under `eval()` or `no_grad()`
    the same number is returned and forgotten. Any number of calls may come before `step`, and λ
    then moves as after one call with the joined batch. For the model to see the joined batch too,
    announce the rows with `expect`: nobody can divide by a count that is not known yet.

    With several processes the sums are added over the ranks, and the scalar is so many times this
    rank's part, because DistributedDataParallel takes the mean of the gradients. Every rank makes
    the same calls, with as many rows as it has, be it none.

    Parameters
    ----------
    mixtures : Objective, MixtureSet, function, str or None
        What λ climbs: Λ, mu or a prior, offsets, robustness; or Λ alone, and the rest by name. The
        loss does not see the weights of the model, so γ is 0; the optimizer has its weight decay.
    step : float or function
        γ_λ, the step size of λ, or a function of the step number 1, 2, …
    adversary : {"euclidean", "entropic"}
        How λ steps: the paper's way, or multiplicative weights.
    optimistic : bool
        Whether λ steps along 2δ_t − δ_{t−1}; for the model see `Optimistic`.
    loss_bound : float, optional
        What a single loss counts at most for λ, so that one broken row cannot own it.
    held_out : bool
        Whether λ moves by other rows than the model: `step(losses, domain_ids)`.
    sizes : array-like of shape (p,), optional
        Rows of each domain, for mu, robustness, and Λ that is not given as a set.
    absent : {"auto", "unbiased", "keep"}
        What λ is told of a domain that no row came from. "keep" is its last loss, "unbiased"
        corrects by the sampler's chance of drawing it (see `follow`), and "auto" does that where
        a sampler is known.
    patience : int
        After so many steps without a domain there is one `UnseenDomain` warning.
    names : sequence of str, optional
        Names of the domains for `record`; 0, 1, … by default.
    group : torch.distributed.ProcessGroup, optional
        Whose ranks share the work; None is the default group, if there is one.
    **parts : Any
        Parts of an `Objective` by name: mu, prior, robustness, and offsets b_k, losses to compare
        with: λ then follows the excess L_k − b_k (regret; DoReMi). Not beside one.

    Attributes
    ----------
    mixture, average : Tensor of shape (p,)
        λ, and its average over the steps so far; float64, as all buffers of the loss.
    n_steps : Tensor
        How many steps λ made.

    Examples
    --------
    >>> import torch
    >>> from anymix import Simplex
    >>> criterion = AgnosticLoss(Simplex(2), step=0.1)
    >>> losses, domain = torch.tensor([1.0, 3.0, 4.0]), torch.tensor([0, 0, 1])
    >>> criterion(losses.requires_grad_(), domain)          # ½ · 2 + ½ · 4
    tensor(3., grad_fn=...)
    >>> criterion.step()
    >>> criterion.mixture
    tensor([0.4000, 0.6000], dtype=torch.float64)
    """

    mixture: Tensor
    average: Tensor
    n_steps: Tensor

    def __init__(
        self,
        mixtures: Objective | Mixtures,
        step: Schedule,
        *,
        adversary: Literal["euclidean", "entropic"] = "euclidean",
        optimistic: bool = False,
        loss_bound: float | None = None,
        held_out: bool = False,
        sizes: ArrayLike | None = None,
        absent: Absent = "auto",
        patience: int = 1000,
        names: Sequence[str] | None = None,
        group: Any = None,
        **parts: Unpack[Parts],
    ) -> None:
        super().__init__()
        objective = objective_of(mixtures, parts, gamma=0.0)
        Λ, penalty = _seen(objective, sizes)
        self.adversary = Adversary(Λ, 0.0, kind=adversary, penalty=penalty, optimistic=optimistic)
        p, b = Λ.n_domains, objective.offsets
        self.held_out, self.group, self.loss_bound = held_out, group, loss_bound
        self.offsets = np.zeros(p) if b is None else finite_vector("offsets", b, p)
        if loss_bound is not None:
            fix = "give a positive number, or None"
            loss_bound = finite_number("loss_bound", loss_bound, fix, lambda x: x > 0)
        self.names = [str(k) for k in (range(p) if names is None else names)]
        if len(set(self.names)) != p or len(self.names) != p:
            found = f"has {len(self.names)} entries, {len(set(self.names))} of them different"
            raise InputError("names", found, f"give {p} different names")
        self._step_size: Callable[[int], float] = as_function("step", step)
        self._estimates = Estimates(p, absent, count("patience", patience))
        self._earlier = np.full((2, p), np.nan)
        self._sampler: DomainBatches | None = None
        self._accumulator = Accumulator(p)
        self._is_behind = False  # whether λ has moved since the buffers were written
        for name, value in self._arrays().items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))
        self.register_state_dict_pre_hook(_up_to_date)  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        """What stands in the parentheses of repr."""
        kind, p = self.adversary.kind, self.adversary.mixtures.n_domains
        return f"{type(self.adversary.mixtures).__name__} of {p} domains, {kind}"

    @outside_graphs
    def forward(self, losses: Tensor, domain_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Σ_k λ_k mean_k over the rows of the batch, or of the step if they were announced.

        Parameters
        ----------
        losses : Tensor of shape (n,) or (n, T)
            The loss of every row, or of every token of every row.
        domain_ids : Tensor of shape (n,)
            The domain of every row, 0..p − 1.
        mask : Tensor, optional
            Which losses count, shaped as they are: booleans, or weights ≥ 0.

        Returns
        -------
        Tensor
            A scalar; float32 for losses in half precision, otherwise as the losses.
        """
        rows, accumulator = self._read(losses, domain_ids, mask), self._accumulator
        sums = domain_sums(rows, len(self.names))
        if not (self.training and is_grad_enabled()):
            self._refuse_on_cpu(sums)
            return self._scalar(rows, sums[1], 1)
        ranks, announced = n_ranks(self.group), accumulator.announced
        if announced is not None:  # the counts of all ranks and calls are known already
            if ranks == 1:  # else all ranks look together, in `step`
                self._refuse_on_cpu(sums)
            accumulator.add_own(sums)
            if self._sampler is not None:
                accumulator.follow(self._sampler.next_drawn())
            return self._scalar(rows, announced, ranks)
        sums = total(sums, self.group, ranks)
        self._refuse_on_cpu(sums)
        accumulator.add(sums)
        if self._sampler is None:
            return self._scalar(rows, sums[1], ranks)
        drawn = self._sampler.next_drawn()
        accumulator.follow(drawn)
        # N_k/R_k · E[rows of k in a batch]: rows that are not there by chance do not count
        expected: Any = np.append(drawn.expected, 1.0)
        rows_of: Any = sums[2].clip(min=1)
        if isinstance(sums, Tensor):
            expected = torch.tensor(expected, device=sums.device)
        return self._scalar(rows, sums[1] * expected / rows_of, ranks)

    @outside_graphs
    def expect(self, *domain_ids: Tensor, mask: Sequence[Tensor] | None = None) -> None:
        """Say which rows the calls before the next `step` will bring, if they are several calls.

        Each call then returns its part of Σ_k λ_k mean_k over all of these rows, so that the sum of
        the gradients is that of one joined batch, however unequal the parts are. Do not divide the
        parts by their number. The means are those of the rows that came, also where a sampler is
        followed; its chances then only serve λ.

        Parameters
        ----------
        *domain_ids : Tensor
            The domains of the rows of each call.
        mask : sequence of Tensor, optional
            The masks of the calls, where they have masks.
        """
        masks = [None] * len(domain_ids) if mask is None else mask
        parts = zip(domain_ids, masks, strict=True)
        sums: Any = 0
        for ids, m in parts:
            sums = sums + domain_sums(self._read(no_losses(ids, m), ids, m), len(self.names))
        if not domain_ids:
            raise InputError("domain_ids", "is missing", "give those of every call to come")
        joined: Sums = total(sums, self.group)
        self._refuse_on_cpu(joined)
        self._accumulator.announced = joined[1]

    def follow(self, batches: DomainBatches) -> None:
        """Use the chances with which a sampler draws: λ/q in the loss, π for absent domains.

        From then on call the loss once for every batch, in their order. `Weighted(criterion)` does
        this by itself.

        Parameters
        ----------
        batches : DomainBatches
            Where the batches come from.
        """
        if batches.n_domains != len(self.names):
            found = f"have {batches.n_domains} domains and the loss {len(self.names)}"
            raise InputError("batches", found, "give the same number")
        self._sampler = batches
        batches.followed = True

    @outside_graphs
    def step(
        self,
        losses: Tensor | None = None,
        domain_ids: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> None:
        """Move λ once, by all that came since the last step. Waits for the GPU, once.

        After an error λ is what it was, on every rank, and the sums are empty.

        Parameters
        ----------
        losses, domain_ids, mask : Tensor, optional
            Rows held out, for `held_out=True` only; as in a call of the loss.
        """
        if self.held_out != (losses is not None):
            fix = "give step(losses, domain_ids) just where held_out=True"
            raise InputError("losses", f"do not fit held_out={self.held_out}", fix)
        accumulator = self._accumulator
        if losses is None:
            found, inclusion = accumulator.take(self.group), accumulator.inclusion
            drawn, is_checked = accumulator.drawn, accumulator.is_checked
            accumulator.clear()
        else:
            accumulator.clear()  # what the model was fitted to does not move λ
            with torch.no_grad():
                rows = self._read(losses, domain_ids, mask)
                sums: Any = total(domain_sums(rows, len(self.names)), self.group)
            found = sums.cpu().numpy() if isinstance(sums, Tensor) else sums
            inclusion, drawn, is_checked = None, None, False
        if not is_checked:
            refuse_sums(found, self.names)
        if drawn is not None and not np.array_equal(found[2, :-1], drawn):
            fix = "call the loss once for each batch of the sampler that it follows, in their order"
            raise InputError("domain_ids", "are not those of the batches drawn", fix)
        self._move(found, inclusion)

    def record(self) -> dict[str, float]:
        """What to log: for each domain its last loss and its λ, and the worst of them.

        Returns
        -------
        dict of str to float
            step, loss/<domain>, mixture/<domain>, excess/<domain> (with a reference), worst_loss
            and worst_domain (its number), agnostic_loss (max over Λ) and unseen (the most steps
            that a domain has been missing). NaN is what is not known yet.
        """
        lam, losses, names = self.adversary.mixture, self._estimates.last, self.names
        excess = losses - self.offsets
        found = {"step": float(self.adversary.n_steps)}
        columns = {"loss": losses, "mixture": lam}
        if self.offsets.any():
            columns["excess"] = excess
        for word, values in columns.items():
            found |= {f"{word}/{name}": float(v) for name, v in zip(names, values, strict=True)}
        known = ~np.isnan(excess)
        worst = int(np.argmax(np.where(known, excess, -np.inf)))
        found["worst_domain"] = float(worst) if known.any() else np.nan
        found["worst_loss"] = float(losses[worst])
        found["agnostic_loss"] = np.nan  # max_{λ∈Λ} Σ_k λ_k (L_k − b_k)
        if known.all():
            found["agnostic_loss"] = float(self.adversary.mixtures.maximize(excess) @ excess)
        found["unseen"] = float(self._estimates.unseen.max())
        return found

    def moved(self) -> float:
        """½‖λ̄_T − λ̄_s‖₁ for an s between T/4 and T/2: how much the average λ̄ still moves."""
        then = self._earlier[0]
        return float(np.abs(self.adversary.average - then).sum() / 2)

    # -- one step ----------------------------------------------------------------------------------

    def _move(self, found: Array, inclusion: Array | None) -> None:
        sums, counts, adversary = found[0, :-1], found[1, :-1], self.adversary
        if np.count_nonzero(counts) == len(counts):
            means = sums / counts
        elif counts.any():
            means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        else:
            raise InputError("step", "has no rows to go by", "call the loss before each step")
        delta = self._estimates.gradient(means, adversary.mixture, inclusion)
        adversary.step(delta - self.offsets, self._step_size(adversary.n_steps + 1))
        self._look_back()
        vars(self)["_is_behind"] = True  # nn.Module's own way to set it takes as long as a sum

    def _look_back(self) -> None:
        """At every power of two, remember the average for `moved`."""
        t = self.adversary.n_steps
        if t & (t - 1) == 0:
            self._earlier = np.stack([self._earlier[1], self.adversary.average])

    def _read(self, losses: Any, domain_ids: Any, mask: Any) -> RowLosses:
        rows, buffer = (
            read_rows(losses, domain_ids, mask, self.loss_bound),
            self._buffers["mixture"],
        )
        if rows.values.device != buffer.device:  # type: ignore[union-attr]
            found = f"are on {rows.values.device} and λ on {self.mixture.device}"
            raise InputError("losses", found, f"criterion.to({str(rows.values.device)!r})")
        return rows

    def _scalar(self, rows: RowLosses, n: Sums, ranks: int) -> Tensor:
        """ranks · Σ_i λ_k/n_k ℓ_i, k the domain of row i."""
        lam = self.mixture if isinstance(n, Tensor) else self.adversary.mixture
        c = row_weights(lam, n, rows)
        return weighted_total(rows.values, c if ranks == 1 else ranks * c)

    def _refuse_on_cpu(self, sums: Sums) -> None:
        """Before the model is harmed, if looking costs no waiting; on a GPU `step` looks."""
        if isinstance(sums, np.ndarray):
            try:
                refuse_sums(sums, self.names)
            except InputError:
                self._accumulator.clear()
                raise

    # -- the buffers -------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, ArrayLike]:
        """All that moves, by the names of the buffers."""
        state = self.adversary.state_dict()
        return {
            **state,
            "average": self.adversary.average.copy(),
            "estimate": self._estimates.last,
            "unseen": self._estimates.unseen,
            "earlier": self._earlier,
            **self._accumulator.arrays(),
        }

    def _write(self, whole: bool = False) -> None:
        """Bring the buffers up to date; those that only a checkpoint reads wait for one."""
        state: dict[str, Any] = {
            "mixture": self.adversary.mixture,
            "average": self.adversary.average,
            "n_steps": self.adversary.n_steps,
        }
        for name, value in (self._arrays() if whole else state).items():
            _put(self._buffers[name], value)
        self._is_behind = False

    def __getattr__(self, name: str) -> Any:
        """A buffer, which is brought up to date when it is read."""
        if name in SHOWN and self._is_behind:
            self._write()
        return super().__getattr__(name)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._write(whole=True)  # what the state does not have stays as it is
        super()._load_from_state_dict(*args, **kwargs)
        errors = args[6] if len(args) > 6 else kwargs["error_msgs"]
        if errors:
            return
        state = {name: b.cpu().numpy().copy() for name, b in self.named_buffers()}
        names = self.adversary.state_dict()
        try:
            self.adversary.load_state_dict({name: state[name] for name in names})
        except InputError as error:
            errors.append(str(error))
            self._write(whole=True)  # back to what it was
            return
        self._estimates.last, self._estimates.unseen = state["estimate"], state["unseen"]
        self._earlier = state["earlier"]
        self._accumulator = Accumulator.of(state, self.mixture.device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AgnosticLoss:
        """`.to(device)` moves the buffers; `.half()` and the like leave them float64."""
        for name, old in self._buffers.items():
            new = fn(old)  # type: ignore[arg-type]
            same = new.dtype == torch.float64
            self._buffers[name] = new if same else old.to(new.device)  # type: ignore[union-attr]
        self._accumulator.to(self.mixture.device)
        return self


def _put(buffer: Any, value: Any) -> None:
    """Write numbers into a buffer, on whatever device it is."""
    if buffer.is_cpu:
        buffer.numpy()[...] = value
    else:
        buffer.copy_(torch.tensor(value))


def _up_to_date(module: Any, prefix: str, keep_vars: bool) -> None:
    """Before a state is taken; a function of the module, so that a copy writes its own buffers."""
    module._write(whole=True)


def _seen(objective: Objective, sizes: ArrayLike | None) -> tuple[MixtureSet, Penalty]:
    """Λ_t, and what λ pays; the rest of Φ is not seen here."""
    refuse_parts(
        objective,
        "give what is usual, and 0 for gamma: the loss does not see the model's weights",
        gamma=0.0,
        norm="squared",
        multiplicative=False,
        anchor=None,
        w_radius=None,
    )
    if sizes is not None:
        m = proportions(sizes)
        return objective.shrunk(m), objective.penalty(m)
    Λ = objective.mixtures
    if not isinstance(Λ, MixtureSet) or objective.mu > 0 or objective.robustness < 1:
        fix = "give the rows of each domain for mu, robustness, or Λ that is not a set"
        raise InputError("sizes", "is missing", fix)
    return Λ, objective.penalty(np.ones(Λ.n_domains))
