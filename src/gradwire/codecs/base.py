"""What every codec is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gradwire.errors import MessageError, ParameterError
from gradwire.kernels import Vector
from gradwire.rng import Rng
from gradwire.theory.guarantee import Guarantee
from gradwire.wire import Reader, Writer

__all__ = ["Codec", "Floats", "check_share", "count_of", "decoder_of"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Codec(ABC):
    """A pair of encoder and decoder, C = D∘E; its parameters are its fields.

    A codec is immutable, has no state and no device; two with equal fields are equal. ``str(codec)`` is its text
    form and :func:`gradwire.from_spec` gives the codec back from it.
    """

    code: ClassVar[int]
    """Its byte on the wire: allotted once, never reused."""

    name: ClassVar[str]
    """Its name in the text form."""

    inner: ClassVar[bool] = False
    """Whether it may encode the values of another codec."""

    on_device: ClassVar[bool] = False
    """Whether ``encode`` takes tensors on an accelerator as well, by kernels that do; else it gets a copy on the host.
    (``add`` always takes both.)"""

    @abstractmethod
    def encode(self, x: Vector, writer: Writer, rng: Rng) -> None:
        """Writes C(x).

        Args:
            x: finite float32 (n,), n ≥ 1, contiguous; not changed.
            writer: takes the payload.
            rng: the only source of randomness.

        Raises:
            InputError: x is not finite.
            ParameterError: a parameter does not fit n.
        """

    @staticmethod
    @abstractmethod
    def add(reader: Reader, out: Vector, weight: float) -> None:
        """out ← out + weight·C(x), from the bytes alone.

        An implementation reads everything, calls ``reader.end()``, and only then touches ``out``.

        Args:
            reader: at the payload of a message for n = len(out) entries.
            out: float32 (n,), n ≥ 1, contiguous; changed in place.
            weight: finite, a binary32.

        Raises:
            MessageError: the payload is not valid; ``out`` is as before. Nothing else is ever raised.
        """

    @abstractmethod
    def guarantee(self, n: int) -> Guarantee:
        """The theorem for vectors of n ≥ 1 entries."""

    def check(self, n: int) -> None:
        """Raises ParameterError where a parameter does not fit n ≥ 0 entries."""
        return

    @staticmethod
    def describe(reader: Reader) -> dict[str, Any]:
        """What the payload tells about itself, for :func:`gradwire.inspect`; checks no more than it needs."""
        return {}

    def __str__(self) -> str:
        from gradwire.codecs.spec import to_spec

        return to_spec(self)


def count_of(share: int | float, n: int, name: str) -> int:
    """The count that ``share`` means for n entries: an int itself, a float its share of n, at least one.

    Raises:
        ParameterError: an int above n.
    """
    if isinstance(share, float):
        return min(n, max(1, int(share * n + 0.5))) if n else 0
    if share > n:
        raise ParameterError(
            f"{name} = {share} is more than the vector's {n} entries: give at most {n}, or a share such as 0.01"
        )
    return share


def check_share(share: int | float, name: str) -> None:
    """Raises ParameterError unless ``share`` is a positive int or a float in (0, 1]."""
    if isinstance(share, bool) or not isinstance(share, int | float):
        raise ParameterError(f"{name} must be a count (int) or a share of n (float in (0, 1]), not {share!r}")
    if isinstance(share, int) and share < 1:
        raise ParameterError(f"{name} = {share} sends nothing: give a count of at least 1, or a share such as 0.01")
    if isinstance(share, float) and not 0.0 < share <= 1.0:
        raise ParameterError(f"{name} = {share} is no share of n: give a float in (0, 1], or an int for a count")


def decoder_of(code: int, inner: bool) -> type[Codec]:
    """The codec class of a code read from a message.

    Raises:
        MessageError: nothing has this code, or it may not stand inside another codec.
    """
    from gradwire.codecs import BY_CODE

    found = BY_CODE.get(code)
    if found is None:
        raise MessageError(f"the message names codec {code}, which this gradwire does not know: use a newer gradwire")
    if inner and not found.inner:
        raise MessageError(f"the message has codec {found.name} inside another, where it may not stand")
    return found
