"""The hook's measurements in TensorBoard's own files, written on one rank of real training."""

import math

import pytest

import ddp_jobs as jobs
from gloo_ranks import GlooRanks
from gradwire.errors import ParameterError
from gradwire.torch.statistics import LayerMeasured, Measured, StepMeasured
from gradwire.torch.tensorboard import TensorBoard

LAYERS = {"0.weight", "2.weight", "4.weight", "6.weight", "dense"}
TOTALS = {"message_bytes", "sent_bytes", "ratio", "bits_per_coordinate", "nmse"}
TOTALS |= {"encode_ms", "communicate_ms", "decode_ms", "skipped"}


class Points(list):
    """A writer that keeps what it gets."""

    def add_scalar(self, tag, scalar_value, global_step):
        self.append((tag, scalar_value, global_step))


def written(rank, world, folder):
    """Ten steps, of which rank 0 writes every second one; what the hook itself says of them."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder) if rank == 0 else None
    callback = TensorBoard(writer, every=2) if writer else None
    model, hook = jobs.attach(jobs.net(), jobs.TOPK, callback=callback)
    for step in range(10):
        jobs.backward(model, rank, step)
    if writer:
        writer.close()
    stats = hook.stats()
    return [step.message_bytes for step in stats.steps], [step.nmse for step in stats.steps], sorted(stats.layers)


def test_the_event_file_has_every_curve_and_its_points(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    ranks = GlooRanks(2)
    try:
        sizes, errors, layers = ranks.run(written, str(tmp_path))[0]
    finally:
        ranks.close()
    assert set(layers) == LAYERS
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    curves = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    by_layer = {f"gradwire_{name}/{layer}" for layer in LAYERS for name in ("ratio", "nmse", "cosine")}
    by_layer |= {f"gradwire_residual_norm/{layer}" for layer in LAYERS - {"dense"}}
    assert set(curves) == {f"gradwire/{name}" for name in TOTALS} | by_layer
    assert all([step for step, _ in points] == [1, 3, 5, 7, 9] for points in curves.values())
    pairs = [(sizes[i] + sizes[i + 1]) / 2 for i in range(0, 10, 2)]
    assert [value for _, value in curves["gradwire/message_bytes"]] == pytest.approx(pairs, rel=1e-6)
    assert all(0 < value < 1 for _, value in curves["gradwire/nmse"])
    assert all(min(errors) < value < max(errors) for _, value in curves["gradwire/nmse"])
    assert all(0 < value < 1 for _, value in curves["gradwire_cosine/2.weight"])
    assert all(value == 1 for _, value in curves["gradwire_cosine/dense"])
    assert curves["gradwire_residual_norm/2.weight"][-1][1] > 0


def test_what_was_not_measured_is_left_out_and_no_skip_is_lost():
    points = Points()
    board = TensorBoard(points, every=3, layers=False, prefix="run")
    for step in range(3):
        skip = step == 1
        exchanged = {} if skip else {"coordinates": 100, "message_bytes": 40}
        board(StepMeasured(step, Measured(steps=1, skipped=skip, sent_bytes=50, **exchanged), {"w": LayerMeasured()}))
    found = {tag: value for tag, value, step in points if step == 2}
    assert found["run/skipped"] == 1
    assert found["run/message_bytes"] == 40
    assert found["run/sent_bytes"] == 50
    assert found["run/ratio"] == 10
    assert "run/nmse" not in found
    assert len(found) == len(points) == 8
    assert all(math.isfinite(value) for value in found.values())


def test_steps_that_are_all_skipped_and_zero_steps_between_points():
    points = Points()
    TensorBoard(points, every=1)(StepMeasured(0, Measured(steps=1, skipped=1, sent_bytes=9)))
    assert {tag for tag, *_ in points} == {
        f"gradwire/{n}" for n in TOTALS - {"nmse", "ratio", "message_bytes", "bits_per_coordinate"}
    }
    with pytest.raises(ParameterError, match="every is 0"):
        TensorBoard(points, every=0)
