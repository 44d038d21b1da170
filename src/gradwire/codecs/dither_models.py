"""The models that the universal dithered code takes its pick from: computed, fitted, or a levels section."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.gaussian_tables import CONTEXT_BITS, SPACINGS, gaussian_tables
from gradwire.errors import MessageError
from gradwire.kernels import Vector
from gradwire.wire import Reader, Writer

__all__ = ["COMPUTED", "FITTED", "LEVELS", "MODELS", "TRIED", "Dithered", "add_dithered", "write_shortest"]

Words = npt.NDArray[np.uint32]
Tables = npt.NDArray[np.uint16]

COMPUTED, FITTED, LEVELS = 0, 1, 2
MODELS = ("computed", "fitted", "levels")

TRIED = 4096
"""Up to this many levels every model is tried; beyond, the first two are compared by what they would cost."""

SPARSE = 64
"""A levels section is tried beyond as well if less than one level in so many is not zero: it is a sparse one then."""

SPACING_BYTES = 4


@dataclass(frozen=True)
class Dithered:
    """The levels k_i = round(x_i·inverse + U_i) of a vector, U from ``seed``.

    Those of long arrays are made and coded at once, and made again rather than kept; others are kept.
    """

    x: Vector
    inverse: float
    seed: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def _fused(self) -> bool:
        return isinstance(self.x, np.ndarray) and len(self.x) > TRIED

    @cached_property
    def zigzag(self) -> Words:
        """They themselves: uint32 (n,)."""
        return kernels.quantise(self.x, self.inverse, kernels.SHARED, self.seed)

    def _contexts(self, bits: int) -> npt.NDArray[np.uint8]:
        return kernels.dither_contexts(self.seed, 0, len(self.x), bits)

    def counts(self) -> npt.NDArray[np.uint64]:
        """How often each token is met in each context: uint64 (16, 141)."""
        if self._fused:
            return kernels.count_dithered(self.x, self.inverse, self.seed)
        return kernels.count_contextual(self.zigzag, self._contexts(CONTEXT_BITS))

    def write(self, form: Writer, tables: Tables) -> None:
        """Their integers in context, with these 2^bits tables."""
        if self._fused:
            form.raw(kernels.encode_dithered(self.x, self.inverse, self.seed, tables))
        else:
            form.contextual(self.zigzag, self._contexts(len(tables).bit_length() - 1), tables)


def write_shortest(levels: Dithered, a: float, unary: float) -> tuple[int, Writer]:
    """The levels in the shortest form, and the byte that names it.

    Args:
        levels: n ≥ 1 of them.
        a: the spacing of the computed model.
        unary: bits that no levels section of these levels exceeds; beyond them it is tried in any case.
    """
    counts = levels.counts()
    bits, fitted, sent, fitted_cost = kernels.fit_tables(counts)
    tables = gaussian_tables(a)
    computed_cost = kernels.cost_contextual(counts, tables) + (8 * SPACING_BYTES << 12)

    forms = []
    every = len(levels) <= TRIED
    if every or computed_cost <= fitted_cost:
        form = Writer()
        form.f32(a)
        levels.write(form, tables)
        forms.append((COMPUTED, form))
    if every or computed_cost > fitted_cost:
        form = Writer()
        form.raw(sent)
        levels.write(form, fitted)
        forms.append((FITTED | bits << 4, form))
    sparse = SPARSE * (len(levels) - int(counts[:, 0].sum())) < len(levels)
    if every or sparse or min(computed_cost, fitted_cost) > 4096 * unary:
        form = Writer()
        form.levels(levels.zigzag)
        forms.append((LEVELS, form))
    return min(forms, key=lambda candidate: _size(candidate[1]))


def add_dithered(reader: Reader, out: Vector, model: int, seed: int, scale: tuple[float, float, float]) -> None:
    """Adds the levels that are the rest of a payload to ``out``: out += weight·((step·(k − U))·power), saturating.

    Args:
        reader: behind the seed.
        out: float32 (n,); as before if MessageError is raised.
        model: the byte that names the form.
        seed: of U.
        scale: step, power and weight.
    """
    if model == LEVELS:
        reader.add_levels(out, scale, True, seed)
        return
    if model == COMPUTED:
        a = reader.f32()
        if not SPACINGS[0] <= a <= SPACINGS[1]:
            raise MessageError(f"the message has the spacing {a}, outside 2^−12 … 4")
        tables = gaussian_tables(a)
    else:
        bits = model >> 4
        if model & 15 != FITTED or bits > CONTEXT_BITS:
            raise MessageError(f"the message has a model of kind {model}, which version 1 does not know")
        tables = reader.tables(bits)
    kernels.add_dithered(reader.take(reader.rest), out, tables, seed, *scale)


def _size(form: Writer) -> int:
    return sum(len(part) for part in form.parts())
