"""``gradwire bounds``: the limits on bits for an error α, and what each codec needs for it."""

import argparse
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradwire
from gradwire.errors import ParameterError
from gradwire.rng import Rng
from gradwire.theory.bounds import average_case_bits, covering_bits, existence_bits, uncertainty_bits

__all__ = ["add_arguments", "run", "table"]

MEASURED_DIM = 1_000_000
"""Codecs are measured on a Gaussian vector of at most so many entries."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``gradwire bounds``."""
    parser.add_argument("--alpha", type=float, required=True, help="the error ‖C(x) − x‖²/‖x‖², in (0, 1)")
    parser.add_argument("--dim", type=int, required=True, help="the number of entries, 2 … 1,000,000,000")
    parser.add_argument("--seed", type=int, default=0, help="of the measured vector and messages (default 0)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """``gradwire bounds``."""
    result = table(args.alpha, args.dim, args.seed)
    if args.json:
        print(json.dumps(result))
        return 0
    n = args.dim
    print(f"error α = {args.alpha}, {n:,} entries, float32: {32 * n:,} bits\n")
    rows = [
        ("average case: no code can need fewer bits in the mean (−log2 P)", result["average_case_bits"]),
        ("uncertainty principle: nor fewer for the worst vector (n/2·log2 1/α)", result["uncertainty_bits"]),
        ("worst case, an estimate (believed covering density)", result["worst_case_bits"]),
        ("worst case: some code, not known, needs no more than", result["existence_bits"]),
    ]
    for text, bits in rows:
        print(f"{text:<72} {bits:>16,.1f} bits  {bits / n:8.4f} a coordinate")
    print(f"\n{'codec at that error':<44} {'guaranteed':>12} {'measured':>10} {'error':>9}  bits a coordinate")
    for row in result["codecs"]:
        guaranteed = _number(row["guaranteed_bits"], n)
        measured = _number(row["measured_bits"], row["measured_dim"])
        error = "–" if row["measured_nmse"] is None else f"{row['measured_nmse']:.4f}"
        print(f"{row['codec'] if row['spec'] is None else row['spec']:<44} {guaranteed:>12} {measured:>10} {error:>9}")
    print(
        "\nguaranteed: no message is longer, header and checksum included · measured: on a Gaussian vector of "
        f"{min(n, MEASURED_DIM):,} entries\nunbiased codecs are scaled by 1/(1 + ω), ω = α/(1 − α) · a dash: the codec "
        "guarantees no such error for every vector"
    )
    return 0


def _number(bits: float | None, n: int) -> str:
    return "–" if bits is None else f"{bits / n:.4f}"


def table(alpha: float, dim: int, seed: int = 0) -> dict[str, Any]:
    """The limits in bits, and a row a codec, as plain data.

    Raises:
        ParameterError: alpha or dim out of range.

    Example:
        >>> round(table(0.1, 1000)["average_case_bits"], 4)
        1665.5355
    """
    if not 1e-8 <= alpha < 1.0:
        raise ParameterError(f"alpha = {alpha} must lie in [1e-8, 1)")
    if not 2 <= dim <= 10**9:
        raise ParameterError(f"dim = {dim} must lie in 2 … 1,000,000,000")
    n = min(dim, MEASURED_DIM)
    x = np.random.Generator(np.random.Philox(seed)).standard_normal(n).astype(np.float32)
    return {
        "alpha": alpha,
        "dim": dim,
        "average_case_bits": average_case_bits(alpha, dim),
        "uncertainty_bits": uncertainty_bits(alpha, dim),
        "worst_case_bits": covering_bits(alpha, dim),
        "existence_bits": existence_bits(alpha, dim),
        "codecs": [_row(name, alpha, dim, x, seed) for name in gradwire.CODECS],
    }


def _row(name: str, alpha: float, dim: int, x: np.ndarray[Any, np.dtype[np.float32]], seed: int) -> dict[str, Any]:
    row: dict[str, Any] = {"codec": name, "spec": None, "guaranteed_bits": None, "measured_bits": None}
    row |= {"measured_dim": len(x), "measured_nmse": None}
    for spec in _specs(name, alpha):
        codec = gradwire.from_spec(spec)
        try:
            guarantee = codec.guarantee(dim)
            codec.check(dim)
            message = gradwire.encode(codec, x, Rng(seed))
        except ParameterError:  # the parameter does not fit this n, or the search would take too long
            continue
        error = guarantee.error / (1.0 + guarantee.error) if guarantee.unbiased else guarantee.error
        if error > alpha * (1.0 + 1e-9):
            continue
        scale = 1.0 / (1.0 + guarantee.error) if guarantee.unbiased else 1.0
        y = gradwire.decode(message, len(x)).astype(np.float64) * scale
        row |= {
            "spec": spec,
            "guaranteed_bits": 8 * guarantee.max_bytes,
            "measured_bits": 8 * len(message),
            "measured_nmse": float(((y - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum()),
        }
        break
    return row


def _specs(name: str, alpha: float) -> Iterator[str]:
    """Texts of a codec, cheapest first; the first whose guarantee meets alpha is taken."""
    omega = alpha / (1.0 - alpha)
    share = 1.0 - alpha * (1.0 - 1e-6)
    levels = [round(2 ** (i / 4)) for i in range(65)]
    texts = {
        "identity": ["identity:dtype=bfloat16", "identity"],
        "topk": [f"topk:k={share}"],
        "rtopk": [f"rtopk:k={share},r=1.0"],
        "randomk": [f"randomk:k={share}"],
        "threshold": [f"threshold:t={math.sqrt(alpha) * (1 - 1e-7)}"],
        "sd": [f"sd:alpha={alpha}"],
        "ud": [f"ud:omega={omega * (1 - 1e-9)}"],
        "qsgd": [f"qsgd:levels={s},bucket=512" for s in sorted(set(levels))],
        "naturaldithering": [f"naturaldithering:levels={s}" for s in range(2, 41)],
        "natural": ["natural"],
        "ternary": ["ternary"],
        "sign": ["sign"],
        "kashin": [f"kashin:levels={s}" for s in sorted(set(levels)) if s >= 2],
        "spherical": [f"spherical:alpha={alpha}"],
    }
    yield from texts.get(name, [])
