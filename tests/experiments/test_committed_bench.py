"""The speeds that are committed: what `gradwire bench --against --save-machine` wrote. Nothing is timed here."""

import csv
from pathlib import Path

import pytest

import gradwire
from gradwire.experiments.bench.peers import peer
from gradwire.experiments.bench.plan import CODECS, SIZES

FILES = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.csv"))
ONE_GIGABIT, TEN_GIGABIT = 0.125, 1.25  # GB/s: float32 that a link carries in a second


def rows_of(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(params=FILES, ids=[file.stem for file in FILES])
def rows(request):
    return rows_of(request.param)


def test_there_is_one():
    assert FILES


def test_it_is_whole(rows):
    ours = {(row["name"], int(row["n"])) for row in rows if not row["library"]}
    assert ours == {(codec, n) for codec in CODECS for n in SIZES}
    assert {row["library"] for row in rows} >= {"", "torch", "numpy", "zstandard", "constriction"}
    assert len({(row["processor"], row["simd"], row["backend"]) for row in rows}) == 1


def slower_than_a_peer(rows):
    """Codecs of long vectors that encode or add no faster than what another library offers for the same."""
    ours = [row for row in rows if not row["library"] and int(row["n"]) >= 1_000_000 and row["threads"] == "1"]
    theirs = {(row["name"], row["n"]): row for row in rows if row["library"] and row["threads"] == "1"}
    slower = []
    for row in ours:
        for library in ("torch", "numpy", "zstandard", "constriction"):
            rival = peer(library, gradwire.from_spec(row["name"]))
            if rival is None:
                continue
            other = theirs[rival.name, row["n"]]
            if float(row["encode_gb_s"]) <= float(other["encode_gb_s"]):
                slower.append((row["name"], row["n"], rival.name, row["encode_gb_s"], other["encode_gb_s"]))
    return slower


def test_d19_no_peer_encodes_faster(rows):
    assert slower_than_a_peer(rows) == []


def test_d19_encoding_costs_less_than_a_link_saves(rows):
    for row in rows:
        if row["library"] or int(row["n"]) < 1_000_000:
            continue
        speed, codec = float(row["encode_gb_s"]), row["name"]
        assert speed > ONE_GIGABIT, codec
        if not codec.startswith(("kashin", "spherical")):
            assert speed > TEN_GIGABIT, codec


def test_a_slow_encoder_would_be_seen(rows):
    for row in rows:
        if row["name"] == "topk:k=0.01" and not row["library"]:
            row["encode_gb_s"] = "0.13"  # of the peers' table
    assert slower_than_a_peer(rows)
