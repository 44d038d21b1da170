"""What a message costs: as the papers count bits, as its payload, and as the frame that is really sent."""

from typing import NamedTuple

import numpy as np

import gradwire
from gradwire.codecs import BY_CODE
from gradwire.codecs.scaling import read_exponent
from gradwire.theory import log2_binomial, sparse_dithering_code_bits
from gradwire.wire import Reader, open_frame

__all__ = ["Cost", "cost", "paper_bits"]


class Cost(NamedTuple):
    """Bytes of a message, or of many.

    Attributes:
        paper: :func:`paper_bits` / 8, not rounded up.
        payload: of the codec's payload, whole bytes.
        frame: ``len()`` of the message: payload, header and checksum.
    """

    paper: float
    payload: int
    frame: int


def cost(message: bytes) -> Cost:
    """The three sizes of a message.

    >>> import numpy as np
    >>> cost(gradwire.encode("identity", np.arange(14, dtype=np.float32), 0))
    Cost(paper=56.0, payload=57, frame=66)
    """
    return Cost(round(paper_bits(message) / 8.0, 2), len(open_frame(message).payload), len(message))


def paper_bits(message: bytes) -> float:
    """Bits as Albasyoni et al. count them: an ideal code, without header, checksum or whole bytes.

    Definition: identity 32d; top-k and rTop-k 32k + log2 C(d, k); random-k 32k (the seed is known); Sparse Dithering
    its code of section 3: 31 bits of norm, log2 d + log2 C(d, n0), a sign for each level that is not 0, unary levels
    (whatever the rounding; a shared dither's seed is known); Spherical Compression: 31 bits of norm, and the number of
    the draw in the Golomb–Rice code; where there are several blocks, which the paper has not, what the codec spends on
    their norms.

    Args:
        message: of d ≥ 1 entries.

    Raises:
        gradwire.MessageError: not a valid message.
        gradwire.ParameterError: a codec that is not listed here.

    >>> import math, numpy as np
    >>> x = np.array([3.0, -4.0, 0.0, 0.0], np.float32)
    >>> round(paper_bits(gradwire.encode("sd:nu=0.25", x, 0)), 3) == round(31 + 2 + math.log2(6) + 2 + 3, 3)
    True
    """
    frame = open_frame(message)
    n, name = frame.n, BY_CODE[frame.codec].name
    if name == "identity":
        return 32.0 * n
    if name in ("topk", "rtopk", "randomk"):
        k = int(gradwire.inspect(message).details["k"])
        return 32.0 * k + (0.0 if name == "randomk" else log2_binomial(n, k))
    if name == "spherical":
        details = gradwire.inspect(message).details
        norms = 31 if details.get("blocks", 1) == 1 else details["other_bits"]
        return float(norms + details.get("index_bits", 0))
    if name == "sd":
        levels = _sparse_dithering_levels(Reader(frame.payload, n))
        return sparse_dithering_code_bits(n, int((levels == 0).sum()), int(levels.sum()))
    raise gradwire.ParameterError(f"the papers' way to count bits of {name} is not known here")


def _sparse_dithering_levels(reader: Reader) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """|k_i| of a Sparse Dithering payload (docs/wire-format.md, 7.4)."""
    shared = reader.u8()
    read_exponent(reader)
    if reader.f32() == 0.0:
        return np.zeros(reader.n, np.int64)
    if shared:
        reader.u64()
    zigzag = reader.levels(reader.n).astype(np.int64)
    return (zigzag + 1) // 2
