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


def arrival(row, link):
    """Seconds until a message has been encoded and sent over a link of so many bytes a second."""
    return float(row["encode_s"]) + float(row["bits_per_coordinate"]) * int(row["n"]) / 8 / link


def beaten(rows, link):
    """Codecs of long vectors whose messages arrive no sooner than a peer's for the same.

    Or that encode no faster than a peer whose message is not twice as long.
    """
    ours = [row for row in rows if not row["library"] and int(row["n"]) >= 1_000_000 and row["threads"] == "1"]
    theirs = {(row["name"], row["n"]): row for row in rows if row["library"] and row["threads"] == "1"}
    found = []
    for row in ours:
        for library in ("torch", "numpy", "zstandard", "constriction"):
            rival = peer(library, gradwire.from_spec(row["name"]))
            if rival is None:
                continue
            other = theirs[rival.name, row["n"]]
            alike = float(other["bits_per_coordinate"]) < 2 * float(row["bits_per_coordinate"])
            slower = alike and float(row["encode_s"]) >= float(other["encode_s"])
            if slower or arrival(row, link) >= arrival(other, link):
                found.append((row["name"], row["n"], rival.name, row["encode_gb_s"], other["encode_gb_s"]))
    return found


@pytest.mark.parametrize("link", [TEN_GIGABIT / 100, ONE_GIGABIT], ids=["100 Mbit/s", "1 Gbit/s"])
def test_d19_no_peer_encodes_faster_or_arrives_sooner(rows, link):
    assert beaten(rows, 1e9 * link) == []


def test_d19_encoding_costs_less_than_a_link_saves(rows):
    for row in rows:
        if row["library"] or int(row["n"]) < 1_000_000:
            continue
        speed, codec = float(row["encode_gb_s"]), row["name"]
        assert speed > ONE_GIGABIT, codec
        if not codec.startswith(("kashin", "spherical")):
            assert speed > TEN_GIGABIT, codec


def test_d19_an_encoder_as_slow_as_torch_is_seen(rows):
    for row in rows:
        if row["name"] == "topk:k=0.01" and not row["library"]:
            row["encode_s"] = str(4e-9 * int(row["n"]) / 0.13)  # as top-k in torch
    assert beaten(rows, 1e9 * ONE_GIGABIT)
