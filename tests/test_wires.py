"""D18: other tools' wires spend two to forty times the content; ours are measured as they leave."""

from math import comb, log2

import numpy as np
import pytest

import gradwire

N = 1 << 18
X = np.random.default_rng(0).standard_normal(N).astype(np.float32)


def bits(spec, of=N):
    return 8 * len(gradwire.encode(spec, X, 0)) / of


@pytest.mark.parametrize(
    ("spec", "content", "theirs"),
    [
        ("sign", 1.0, 8.0),  # whole bytes for signs
        ("ternary", log2(3), 8.0),  # and for ternary digits
        ("qsgd:levels=4", log2(9), 40.0),  # 40 bits a value at any setting
    ],
)
def test_d18_an_entry_costs_its_content(spec, content, theirs):
    assert bits(spec) <= 1.02 * content < theirs


@pytest.mark.parametrize(
    ("share", "values", "value_bits", "theirs"),
    [
        (32 / 4096, "bfloat16", 16, 96),  # a 64-bit index and a float32
        (32 / 4096, "float32", 32, 96),
    ],
)
def test_d18_a_kept_entry_costs_its_value_and_what_its_place_tells(share, values, value_bits, theirs):
    kept = round(N * share)
    content = value_bits + log2(comb(4096, round(4096 * share))) / round(4096 * share)
    measured = bits(f"topk:k={share},values={values}", kept)
    assert measured <= 1.02 * content < theirs
