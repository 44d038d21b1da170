"""Floor 4: one file an algorithm; ``CODECS`` is the closed registry."""

from gradwire.codecs.base import Codec
from gradwire.codecs.identity import Identity
from gradwire.codecs.kashin import Kashin
from gradwire.codecs.messages import Inspection, add, decode, encode, inspect
from gradwire.codecs.natural import NaturalCompression
from gradwire.codecs.naturaldithering import NaturalDithering
from gradwire.codecs.qsgd import StandardDithering
from gradwire.codecs.randomk import RandomK
from gradwire.codecs.rtopk import RTopK
from gradwire.codecs.sd import SparseDithering
from gradwire.codecs.sign import ScaledSign
from gradwire.codecs.spec import from_spec
from gradwire.codecs.spherical import Spherical
from gradwire.codecs.ternary import Ternary
from gradwire.codecs.threshold import Threshold
from gradwire.codecs.topk import TopK
from gradwire.codecs.ud import UniversalDithering

__all__ = [
    "BY_CODE",
    "CODECS",
    "Codec",
    "Identity",
    "Inspection",
    "Kashin",
    "NaturalCompression",
    "NaturalDithering",
    "RTopK",
    "RandomK",
    "ScaledSign",
    "SparseDithering",
    "Spherical",
    "StandardDithering",
    "Ternary",
    "Threshold",
    "TopK",
    "UniversalDithering",
    "add",
    "decode",
    "encode",
    "from_spec",
    "inspect",
]

CODECS: dict[str, type[Codec]] = {
    codec.name: codec
    for codec in (
        Identity,
        TopK,
        RandomK,
        RTopK,
        SparseDithering,
        UniversalDithering,
        Threshold,
        StandardDithering,
        NaturalCompression,
        NaturalDithering,
        Ternary,
        ScaledSign,
        Kashin,
        Spherical,
    )
}
"""Every codec by its name in the text form."""

BY_CODE: dict[int, type[Codec]] = {codec.code: codec for codec in CODECS.values()}
"""Every codec by its byte on the wire."""
