"""gradwire: gradients, pseudo-gradients and model updates as messages near the fewest bits that theory allows.

>>> import numpy as np
>>> import gradwire
>>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
>>> message = gradwire.encode(gradwire.RTopK(k=0.01, r=0.04), x, rng=1)
>>> len(message) < 600
True
>>> y = gradwire.decode(message, n=10_000)
>>> int(np.count_nonzero(y))
100
"""

from gradwire.codecs import (
    CODECS,
    Codec,
    Identity,
    Inspection,
    Kashin,
    NaturalCompression,
    NaturalDithering,
    RandomK,
    RTopK,
    ScaledSign,
    SparseDithering,
    Spherical,
    StandardDithering,
    Ternary,
    Threshold,
    TopK,
    UniversalDithering,
    add,
    decode,
    encode,
    from_spec,
    inspect,
)
from gradwire.errors import GradwireError, InputError, MessageError, MissingError, ParameterError
from gradwire.kernels.threads import get_threads, set_threads
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee

__version__ = "0.1.0"

__all__ = [
    "CODECS",
    "Codec",
    "GradwireError",
    "Guarantee",
    "Identity",
    "InputError",
    "Inspection",
    "Kashin",
    "MessageError",
    "MissingError",
    "NaturalCompression",
    "NaturalDithering",
    "ParameterError",
    "RTopK",
    "RandomK",
    "Rng",
    "ScaledSign",
    "SparseDithering",
    "Spherical",
    "StandardDithering",
    "Ternary",
    "Threshold",
    "TopK",
    "UniversalDithering",
    "__version__",
    "add",
    "decode",
    "encode",
    "from_spec",
    "get_threads",
    "inspect",
    "set_threads",
]
