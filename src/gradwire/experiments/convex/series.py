"""What paper B's two figures compare: the compressors, their colours and what the paper found for each."""

from dataclasses import dataclass

import gradwire
from gradwire.errors import ParameterError

__all__ = ["BASIC", "SERIES", "TOPK", "Series", "available", "spec_of"]


@dataclass(frozen=True)
class Series:
    """One compressor of the figures.

    Attributes:
        key: short name, in rows and tables.
        label: for a reader who has not seen the paper.
        spec: the codec's text, with {alpha} and {block} where the problem decides, {k} where a sweep does.
        line: dashes in figures; the colour is the codec's.
        random: whether a repetition gives other messages.
        unbiased: whether theory asks for another step than 1/L.
        drawn: whether figures show it; tables do.
        slow: whether a message takes so long that fewer runs are made.
    """

    key: str
    label: str
    spec: str
    line: str = "-"
    random: bool = False
    unbiased: bool = False
    drawn: bool = True
    slow: bool = False


BASIC = Series("basic", "float32, every entry (basic)", "identity")
TOPK = Series("topk", "top-k, the best k", "topk:k={k}")

SERIES = (
    BASIC,
    TOPK,
    Series("sd", "Sparse Dithering, ν = 0.1", "sd:nu=0.1,gain=paper"),
    Series("sd-gain", "Sparse Dithering, ν = 0.1, optimal gain", "sd:nu=0.1", drawn=False),
    Series("sd-alpha", "Sparse Dithering, searched, α = 0.1", "sd:alpha=0.1", "--"),
    Series("sd-stochastic", "unbiased Sparse Dithering, ω = ¼", "sd:nu=0.25,rounding=stochastic", ":", True, True),
    Series("sd-shared", "unbiased, shared dither, ω = ¼", "sd:nu=0.75,rounding=shared", "-.", True, True),
    Series("spherical", "Spherical, α = {alpha}", "spherical:alpha={alpha},block={block}", random=True, slow=True),
)


def spec_of(series: Series, alpha: float, dim: int, k: int = 0) -> str:
    """The codec's text for a problem: Spherical Compression takes blocks of at most 14 entries, whole where it can.

    >>> spec_of(SERIES[-1], 0.2, 30), spec_of(TOPK, 0.2, 30, k=3)
    ('spherical:alpha=0.2,block=10', 'topk:k=3')
    """
    blocks = -(-dim // 14)
    return series.spec.format(alpha=alpha, block=-(-dim // blocks), k=k)


def available(series: Series, alpha: float, dim: int) -> bool:
    """Whether this gradwire has the codec, for vectors of ``dim`` entries."""
    try:
        gradwire.from_spec(spec_of(series, alpha, dim, k=1)).check(dim)
    except ParameterError:
        return False
    return True
