"""The rate-distortion experiment: its quick run as a user starts it, and its parts."""

import json
import subprocess
import sys

import numpy as np
import pytest

import gradwire
from gradwire.experiments.rate_distortion import SWEEPS, bits_at
from gradwire.experiments.rate_distortion_vectors import NU, VECTORS, vector

pytest.importorskip("sklearn")


def test_quick_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gradwire", "reproduce", "rate-distortion", "--quick", "--out", tmp_path, "--json"],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    folder = tmp_path / "rate-distortion"
    for name in ("rate-distortion.png", "rate-distortion.svg", "bits-at-a-tenth.png", "index.html", "results.jsonl"):
        assert (folder / name).stat().st_size > 1000
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert {row["item"]["vector"] for row in rows} == set(VECTORS)


def test_every_codec_of_the_paper_s_comparison_is_in_the_sweep():
    swept = {codec for codec, _ in SWEEPS.values()}
    assert swept == set(gradwire.CODECS) - {"identity"}
    for codec, specs in SWEEPS.values():
        assert all(gradwire.from_spec(spec).name == codec for spec in specs)


def test_midpoints_lie_between_two_levels():
    """What makes them adversarial: the paper's step puts every entry half way between two levels."""
    x = vector("midpoints", 20_000, 0).astype(np.float64)
    step = 2 * np.sqrt(NU / len(x)) * np.linalg.norm(x)
    fractions = np.abs(x) / step % 1
    assert np.abs(fractions - 0.5).max() < 0.02


def test_bits_at_takes_the_cheapest_point_and_interpolates():
    assert bits_at(0.1, [(1.0, 0.5)]) is None
    assert bits_at(0.1, [(5.0, 0.05), (4.0, 0.01), (1.0, 0.5)]) == pytest.approx(4.0, abs=1.0)
    assert bits_at(0.25, [(3.0, 0.125), (1.0, 0.5)]) == 2.0
