"""How the training set is shared out to the clients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradwire.errors import ParameterError

__all__ = ["split"]

Indices = npt.NDArray[np.int64]


def split(
    how: str, labels: npt.NDArray[np.int64], clients: int, alpha: float, seed: int, samples: int
) -> list[Indices]:
    """Which samples each client has.

    Definition: "dirichlet": for each label, shares of the clients are drawn from Dir(alpha, …, alpha), and the label's
    samples dealt out by them; small alpha, few labels a client. "writer": blocks of equal size in the order of the
    file, which for digits is the order of their writers. "even": a random equal deal. A client has at least one sample.

    Args:
        how: "dirichlet", "writer" or "even".
        labels: int64 (N,).
        clients: how many, at most ``samples``.
        alpha: of Dirichlet.
        seed: of the draw.
        samples: how many samples, at most N, are shared out, drawn at random except for "writer": the first.

    Returns:
        For each client the indices of its samples, ascending; disjoint.

    Raises:
        ParameterError: more clients than samples.

    Example:
        >>> parts = split("dirichlet", np.arange(1000) % 10, 4, 0.3, seed=1, samples=800)
        >>> sum(len(part) for part in parts), len(np.unique(np.concatenate(parts)))
        (800, 800)

    Source: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution", arXiv 1909.06335.
    """
    samples = min(samples, len(labels))
    if clients > samples:
        raise ParameterError(f"--clients is {clients}, more than the {samples} samples: lower it")
    rng = np.random.default_rng([seed, 1])
    if how == "writer":
        return [part.astype(np.int64) for part in np.array_split(np.arange(samples), clients)]
    chosen = rng.permutation(len(labels))[:samples]
    if how == "even":
        return [np.sort(part) for part in np.array_split(chosen, clients)]
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        mine = chosen[labels[chosen] == label]
        shares = rng.dirichlet(np.full(clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(mine)).astype(int)
        for pieces, piece in zip(parts, np.split(mine, cuts), strict=True):
            pieces.append(piece)
    dealt = [np.sort(np.concatenate(pieces)) for pieces in parts]
    for i, part in enumerate(dealt):  # a client without samples takes one from the richest
        if not len(part):
            richest = max(range(clients), key=lambda j: len(dealt[j]))
            dealt[i], dealt[richest] = dealt[richest][:1], dealt[richest][1:]
    return dealt
