"""What a codec promises: the theorem as numbers that tests can measure."""

from dataclasses import dataclass

__all__ = ["Guarantee"]


@dataclass(frozen=True)
class Guarantee:
    """The promise of a codec C for vectors of n entries.

    Definition: with ``unbiased`` E C(x) = x and E‖C(x) − x‖² ≤ ω‖x‖² (class U(ω)); without it
    E‖C(x) − x‖² ≤ α‖x‖² (class B(α)), and with ``strict`` without the expectation (class C(α)).
    Both hold up to float32 rounding and for every finite x.

    Attributes:
        unbiased: whether E C(x) = x.
        error: ω if unbiased, else α; ``inf`` where the codec promises none.
        strict: the error bound holds with certainty, not only in the mean.
        max_bytes: no message for n entries is longer, header and checksum included.

    Source: compressor classes of Albasyoni et al., arXiv 2010.03246, section 2.
    """

    unbiased: bool
    error: float
    strict: bool
    max_bytes: int
