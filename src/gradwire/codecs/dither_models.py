"""The models that the universal dithered code takes its pick from: computed, fitted, or a levels section."""

import numpy as np
import numpy.typing as npt

from gradwire import kernels
from gradwire.codecs.gaussian_tables import CONTEXT_BITS, SPACINGS, gaussian_tables
from gradwire.errors import MessageError
from gradwire.wire import Reader, Writer

__all__ = ["COMPUTED", "FITTED", "LEVELS", "MODELS", "TRIED", "read_levels", "write_shortest"]

Words = npt.NDArray[np.uint32]

COMPUTED, FITTED, LEVELS = 0, 1, 2
MODELS = ("computed", "fitted", "levels")

TRIED = 4096
"""Up to this many levels every model is tried; beyond, the first two are compared by what they would cost."""

SPARSE = 64
"""A levels section is tried beyond as well if less than one level in so many is not zero: it is a sparse one then."""

SPACING_BYTES = 4


def write_shortest(zigzag: Words, seed: int, a: float, unary: float) -> tuple[int, Writer]:
    """The levels in the shortest form, and the byte that names it.

    Args:
        zigzag: k_i as zigzag numbers, uint32 (n,), n ≥ 1.
        seed: of the dither.
        a: the spacing of the computed model.
        unary: bits that no levels section of these levels exceeds; beyond them it is tried in any case.
    """
    contexts = kernels.dither_contexts(seed, 0, len(zigzag), CONTEXT_BITS)
    counts = kernels.count_contextual(zigzag, contexts)
    bits, fitted, sent, fitted_cost = kernels.fit_tables(counts)
    tables = gaussian_tables(a)
    computed_cost = kernels.cost_contextual(counts, tables) + (8 * SPACING_BYTES << 12)

    forms = []
    every = len(zigzag) <= TRIED
    if every or computed_cost <= fitted_cost:
        form = Writer()
        form.f32(a)
        form.contextual(zigzag, contexts, tables)
        forms.append((COMPUTED, form))
    if every or computed_cost > fitted_cost:
        form = Writer()
        form.raw(sent)
        form.contextual(zigzag, contexts >> np.uint8(CONTEXT_BITS - bits), fitted)
        forms.append((FITTED | bits << 4, form))
    sparse = SPARSE * (len(zigzag) - int(counts[:, 0].sum())) < len(zigzag)
    if every or sparse or min(computed_cost, fitted_cost) > 4096 * unary:
        form = Writer()
        form.levels(zigzag)
        forms.append((LEVELS, form))
    return min(forms, key=lambda candidate: _size(candidate[1]))


def read_levels(reader: Reader, model: int, seed: int, n: int) -> Words:
    """The n levels as zigzag numbers, uint32 (n,).

    Raises:
        MessageError: the bytes are not valid.
    """
    if model == LEVELS:
        return reader.levels(n)
    if model == COMPUTED:
        a = reader.f32()
        if not SPACINGS[0] <= a <= SPACINGS[1]:
            raise MessageError(f"the message has the spacing {a}, outside 2^−12 … 4")
        bits, tables = CONTEXT_BITS, gaussian_tables(a)
    else:
        bits = model >> 4
        if model & 15 != FITTED or bits > CONTEXT_BITS:
            raise MessageError(f"the message has a model of kind {model}, which version 1 does not know")
        tables = reader.tables(bits)
    return reader.contextual(kernels.dither_contexts(seed, 0, n, bits), tables)


def _size(form: Writer) -> int:
    return sum(len(part) for part in form.parts())
