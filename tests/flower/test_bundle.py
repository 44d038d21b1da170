"""The bytes of a bundle: round trips of every kind of tensor, and bytes that are none."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

pytest.importorskip("flwr")

import gradwire
from flower.apps import model
from gradwire.errors import MessageError, ParameterError
from gradwire.flower import bundle
from gradwire.flower.layout import DTYPES, Layout, Rules

CODEC = gradwire.RTopK(k=0.1, r=0.3)


def kept(arrays):
    layout = Layout.of(arrays, Rules())
    return layout, {t.name: t.keep(arrays[t.name]) for t in layout.tensors}


def update(layout, reference, seed=5):
    rng = np.random.default_rng(seed)
    parts = []
    for t in layout.tensors:
        if t.compressed:
            parts.append(
                bundle.encode_pieces(CODEC, rng.standard_normal(t.size).astype(np.float32), gradwire.Rng(seed))
            )
        else:
            parts.append(reference[t.name].reshape(-1).view(np.uint8).data if t.size % 2 else None)
    return bundle.write_changes(bundle.UPDATE, layout, iter(parts))


def test_f11_every_dtype_and_shape_comes_back_bit_for_bit():
    rng = np.random.default_rng(0)
    arrays = {}
    for dtype in DTYPES:
        for shape in ((), (0,), (3, 0, 2), (7,), (2, 3, 4)):
            bits = rng.integers(0, 256, np.dtype(dtype).itemsize * int(np.prod(shape)), np.uint8)
            arrays[f"{dtype} {shape}"] = (bits & 1 if dtype == "bool" else bits).view(dtype).reshape(shape)
    layout, reference = kept(arrays)
    layout2, found = bundle.read_model(bundle.write_model(layout, reference))
    assert layout2 == layout
    assert layout2.digest == layout.digest
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_compressed_tensors_are_the_large_floats_that_no_pattern_excludes():
    layout, _ = kept(model())
    assert {t.name for t in layout.tensors if t.compressed} == {"conv.weight", "fc.weight"}
    layout = Layout.of(model(), Rules(min_size=1, lossless=("conv*",)))
    assert {t.name for t in layout.tensors if t.compressed} == {"norm.running_var", "fc.weight"}


def test_f6_dimensions_above_32767_and_all_zero_tensors():
    arrays = {"wide": np.zeros((1, 70_000), np.float32), "tall": np.ones((70_000, 1), np.float32)}
    layout, reference = kept(arrays)
    assert bundle.read_model(bundle.write_model(layout, reference))[0] == layout
    message = bundle.encode_pieces(CODEC, np.zeros(70_000, np.float32), gradwire.Rng(0))
    after = bundle.apply(layout.tensors[0], reference["wide"], message)
    assert not after.any()
    assert after.shape == (1, 70_000)


def test_f9_a_tensor_is_cut_into_pieces(monkeypatch):
    monkeypatch.setattr(bundle, "PIECE", 64)
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    messages = bundle.encode_pieces(gradwire.Identity(), x, gradwire.Rng(0))
    assert len(messages) == 16
    layout, reference = kept({"w": np.ones((10, 100), np.float32)})
    data = bundle.write_changes(bundle.STEP, layout, iter([messages]))
    parts = bundle.read_changes(bundle.STEP, layout, data)
    after = bundle.apply(layout.tensors[0], reference["w"], parts["w"])
    assert np.array_equal(after, 1 + x.reshape(10, 100))
    assert np.array_equal(reference["w"], np.ones((10, 100))), "the reference is left as it is"


def test_another_models_bundle_is_refused():
    layout, reference = kept(model())
    other = Layout.of({**model(), "fc.weight": np.zeros((40, 50), np.float32)}, Rules())
    with pytest.raises(MessageError, match="other tensors"):
        bundle.read_changes(bundle.UPDATE, other, update(layout, reference))
    with pytest.raises(MessageError, match="kind"):
        bundle.read_changes(bundle.STEP, layout, update(layout, reference))


def test_unknown_dtypes_are_refused_by_name():
    with pytest.raises(ParameterError, match="dates"):
        Layout.of({"dates": np.zeros(3, "datetime64[s]")}, Rules())


def test_f7_truncated_and_mutated_bundles_raise_or_decode():
    layout, reference = kept(model())
    tensors = {t.name: t for t in layout.tensors}
    rng = np.random.default_rng(1)
    for kind, data in (
        (bundle.UPDATE, update(layout, reference)),
        (bundle.MODEL, bundle.write_model(layout, reference)),
    ):

        def read(data, kind=kind):
            if kind == bundle.MODEL:
                return bundle.read_model(data)[1]
            parts = bundle.read_changes(kind, layout, data)
            return {name: bundle.apply(tensors[name], reference[name], part) for name, part in parts.items()}

        for length in {*range(64), *rng.integers(0, len(data), 200).tolist()}:
            with pytest.raises(MessageError):
                read(data[:length])
        with pytest.raises(MessageError):
            read(data + b"\0")
        raised = 0
        for _ in range(400):
            mutated = bytearray(data)
            for where in rng.integers(0, len(data) if rng.random() < 0.5 else 64, 3):
                mutated[where] = rng.integers(256)
            try:
                read(bytes(mutated))
            except MessageError:
                raised += 1
        assert raised > 100


def test_f7_f2_a_claim_of_2_to_the_40_costs_no_memory():
    layout, _ = kept({"w": np.zeros((100, 100), np.float32)})
    claims = [
        # a model of one tensor "w", float32, of 2^32 − 1 by 256 entries, with 4 bytes of data
        bytes(
            [
                bundle.MODEL,
                1,
                1,
                ord("w"),
                DTYPES.index("float32"),
                2,
                0xFF,
                0xFF,
                0xFF,
                0xFF,
                0x0F,
                0x80,
                2,
                0,
                0,
                0,
                0,
            ]
        ),
        # 2^32 − 1 tensors
        bytes([bundle.MODEL, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),
        # an update whose message says that it has 2^32 − 1 bytes
        bytes([bundle.UPDATE])
        + layout.digest.to_bytes(8, "little")
        + bytes([bundle.FRAMES, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),
    ]
    tracemalloc.start()
    for data in claims:
        read = bundle.read_model if data[0] == bundle.MODEL else partial(bundle.read_changes, bundle.UPDATE, layout)
        with pytest.raises(MessageError):
            read(data)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
