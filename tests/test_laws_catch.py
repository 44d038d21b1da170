"""Each law fails on a codec that breaks it: a law that cannot fail protects nothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import gradwire
import laws
from gradwire import kernels
from gradwire.codecs import BY_CODE, TopK
from gradwire.codecs.base import Codec
from gradwire.theory.guarantee import Guarantee


@dataclass(frozen=True)
class Raw(Codec):
    """A right codec, for the wrong ones to spoil: n float32."""

    code: ClassVar[int] = 250
    name: ClassVar[str] = "raw"

    def encode(self, x, writer, rng):
        writer.raw(x.tobytes())

    @staticmethod
    def add(reader, out, weight):
        values = np.frombuffer(reader.take(4 * len(out)), np.float32)
        reader.end()
        if not np.isfinite(values).all():
            raise gradwire.MessageError("not finite")
        kernels.add_dense(out, values, weight)

    def guarantee(self, n):
        return Guarantee(True, 0.0, True, 14 + 4 * n)


class UnseededNoise(Raw):
    def encode(self, x, writer, rng):
        super().encode(x + np.float32(np.random.default_rng().random()), writer, rng)


class ChangesItsInput(Raw):
    def encode(self, x, writer, rng):
        super().encode(x, writer, rng)
        x[0] = 1.25


class UsesTheGlobalGenerator(Raw):
    def encode(self, x, writer, rng):
        np.random.random()
        super().encode(x, writer, rng)


class TooLong(Raw):
    def guarantee(self, n):
        return Guarantee(True, 0.0, True, 4 * n)


class Overflows(Raw):
    @staticmethod
    def add(reader, out, weight):
        out += np.float32(weight) * 2 * np.frombuffer(reader.take(4 * len(out)), np.float32)
        reader.end()


class PadsWhatIsCut(Raw):
    @staticmethod
    def add(reader, out, weight):
        data = bytes(reader.take(min(reader.rest, 4 * len(out)))).ljust(4 * len(out), b"\0")
        reader.end()
        out += np.nan_to_num(np.frombuffer(data, np.float32)) * np.float32(weight)


class IgnoresTheRest(Raw):
    @staticmethod
    def add(reader, out, weight):
        values = np.frombuffer(reader.take(4 * len(out)), np.float32)
        out += np.float32(weight) * np.nan_to_num(values)


class LetsInfinityThrough(Raw):
    @staticmethod
    def add(reader, out, weight):
        values = np.frombuffer(reader.take(4 * len(out)), np.float32)
        reader.end()
        out += np.float32(weight) * values


class ChecksTooLate(Raw):
    @staticmethod
    def add(reader, out, weight):
        values = np.frombuffer(reader.take(4 * len(out)), np.float32)
        reader.end()
        out += np.float32(weight) * np.nan_to_num(values)
        if not np.isfinite(values).all():
            raise gradwire.MessageError("not finite")


class IgnoresTheWeight(Raw):
    @staticmethod
    def add(reader, out, weight):
        Raw.add(reader, out, 1.0)


class Overwrites(Raw):
    @staticmethod
    def add(reader, out, weight):
        zero = np.zeros_like(out)
        Raw.add(reader, zero, weight)
        out[:] = zero


class DiffersByBackend(Raw):
    def encode(self, x, writer, rng):
        y = x if kernels.backends.active is kernels._core else np.nextafter(x, np.float32(0))
        super().encode(y, writer, rng)


class DiffersOnTensors(Raw):
    on_device: ClassVar[bool] = True

    def encode(self, x, writer, rng):
        y = x if isinstance(x, np.ndarray) else x.mul(1.0 + 2.0**-23)
        super().encode(kernels.to_host(y), writer, rng)


class AddsOtherwiseOnTensors(Raw):
    @staticmethod
    def add(reader, out, weight):
        # Adding 0 is not leaving alone: −0 becomes 0.
        values = np.frombuffer(reader.take(4 * len(out)), np.float32)
        reader.end()
        where = np.flatnonzero(values).astype(np.uint32)
        if isinstance(out, np.ndarray):
            kernels.add_sparse(out, where, values[where], weight)
        else:
            kernels.add_dense(out, values, weight)


class Biased(Raw):
    def encode(self, x, writer, rng):
        up = rng.uniform(len(x)) < 0.5
        super().encode(np.where(up, x * 2, x * 0.4).astype(np.float32), writer, rng)

    def guarantee(self, n):
        return Guarantee(True, 1.0, False, 14 + 4 * n)


class PromisesTooMuch(TopK):
    code: ClassVar[int] = 250

    def guarantee(self, n):
        g = super().guarantee(n)
        return Guarantee(g.unbiased, g.error * 0.8, g.strict, g.max_bytes)


WRONG = [
    (UnseededNoise(), laws.same_seed_same_bytes),
    (ChangesItsInput(), laws.same_seed_same_bytes),
    (UsesTheGlobalGenerator(), laws.same_seed_same_bytes),
    (TooLong(), laws.no_longer_than_guaranteed),
    (Overflows(), laws.finite_floats_back),
    (PadsWhatIsCut(), laws.truncation_raises),
    (IgnoresTheRest(), laws.truncation_raises),
    (LetsInfinityThrough(), laws.bit_flip_is_safe),
    (ChecksTooLate(), laws.bit_flip_is_safe),
    (IgnoresTheWeight(), laws.messages_add_up),
    (Overwrites(), laws.messages_add_up),
    (DiffersByBackend(), laws.backends_agree),
    (DiffersOnTensors(), laws.backends_agree),
    (AddsOtherwiseOnTensors(), laws.backends_agree),
    (Biased(), laws.guarantee_is_kept),
    (PromisesTooMuch(k=0.25), laws.guarantee_is_kept),
]


@pytest.fixture
def registered(monkeypatch):
    def register(codec):
        monkeypatch.setitem(BY_CODE, 250, type(codec))
        return codec

    return register


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("codec", "law"), WRONG, ids=lambda v: getattr(v, "__name__", type(v).__name__))
def test_law_catches(codec, law, registered):
    with pytest.raises(AssertionError):
        law(registered(codec))


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_the_right_codec_passes(law, registered):
    law(registered(Raw()))
