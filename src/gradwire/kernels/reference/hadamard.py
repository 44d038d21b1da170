"""The Walsh–Hadamard transform and Kashin's representation in a frame made of it (wire format 7.11)."""

import numpy as np
import numpy.typing as npt

__all__ = ["hadamard", "represent"]

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

INSIDE = np.float32(1.0 - 2.0**-8)


def hadamard(x: Floats, log2n: int) -> Floats:
    """H times each run of 2^log2n entries, not normalised.

    Definition: stages of distance h = 1, 2, 4, …; each replaces entries a and b, h apart, by a + b and a − b.

    Example:
        >>> hadamard(np.array([1, 2, 3, 5], np.float32), 2)
        array([11., -3., -5.,  1.], dtype=float32)

    Source: Fino and Algazi, "Unified matrix treatment of the fast Walsh–Hadamard transform", 1976.
    """
    out = x.copy()
    for stage in range(log2n):
        pairs = out.reshape(-1, 2, 1 << stage)
        a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = a + b, a - b
    return out


def represent(
    y: Floats, positions: Words, signs: Floats, log2n: int, goals: Floats, rounds: int
) -> tuple[Floats, Floats]:
    """Coefficients p with Hp/2^log2n = y·signs at the positions, each within its row's goal if that is reached.

    Definition: Douglas and Rachford's iteration between the box of the goal, less 2^−8 of it, and the plane of
    representations; at most ``rounds`` of them. A row whose magnitudes are within its goal stays as it is.

    Returns:
        p, float32 (rows·2^log2n,), and each row's largest magnitude, float32 (rows,).

    Source: Lyubarskii and Vershynin, "Uncertainty principles and vector quantization", 2010, with reflected truncation.
    """
    rows, n = len(goals), 1 << log2n
    y = y.reshape(rows, -1)
    p = _embed(y, positions, signs, n)
    z, limit = p.copy(), (goals * INSIDE)[:, None]
    for _ in range(rounds):
        going = np.abs(p).max(axis=1) > goals
        if not going.any():
            break
        b = np.clip(z[going], -limit[going], limit[going])
        w = (b + b) - z[going]
        represented = hadamard(w.reshape(-1), log2n).reshape(-1, n)[:, positions]
        residual = y[going] - represented * (np.float32(2.0**-log2n) * signs)
        p[going] = _embed(residual, positions, signs, n) + w
        z[going] = (z[going] - b) + p[going]
    return p.reshape(-1), np.abs(p).max(axis=1)


def _embed(y: Floats, positions: Words, signs: Floats, n: int) -> Floats:
    out = np.zeros((len(y), n), np.float32)
    out[:, positions] = y * signs
    return hadamard(out.reshape(-1), n.bit_length() - 1).reshape(-1, n)
