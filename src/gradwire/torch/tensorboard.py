"""What the hook measured, in TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Protocol

from gradwire.errors import ParameterError
from gradwire.torch.statistics import LayerMeasured, Measured, StepMeasured

__all__ = ["TensorBoard"]

LAYER = ("ratio", "nmse", "cosine", "residual_norm")


class Writer(Protocol):
    """What is asked of a writer."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Write one point of a curve."""


class TensorBoard:
    """A callback of the hook that writes its measurements as scalars.

    Every `every` steps it writes what these steps were together, so that nothing between two points is lost:

    - `gradwire/message_bytes`, `gradwire/sent_bytes`: bytes a step; `gradwire/ratio`, `gradwire/bits_per_coordinate`;
    - `gradwire/nmse`, if it was measured in one of these steps (see `nmse_every` of the hook);
    - `gradwire/encode_ms`, `gradwire/communicate_ms`, `gradwire/decode_ms`: milliseconds a step;
    - `gradwire/skipped`: how many of these steps were skipped;
    - `gradwire_ratio/LAYER`, `gradwire_nmse/LAYER`, `gradwire_cosine/LAYER`, `gradwire_residual_norm/LAYER`: each layer
      by its name; "dense" is all that go dense.

    What was not measured, or is not finite, is left out. The numbers are of one rank: give the callback to one of them,
    and None to the others.

    Args:
        writer: a torch.utils.tensorboard.SummaryWriter, or anything else with its add_scalar(tag, value, step).
        every: steps from one point to the next.
        layers: whether to write the layers.
        prefix: of all tags.

    Raises:
        ParameterError: every is below 1.

    Example:
        >>> writer = SummaryWriter("runs/compressed")                                         # doctest: +SKIP
        >>> hook = gradwire.torch.compress(model, callback=TensorBoard(writer))               # doctest: +SKIP
    """

    def __init__(self, writer: Writer, every: int = 10, layers: bool = True, prefix: str = "gradwire") -> None:
        if every < 1:
            raise ParameterError(f"every is {every}; give 1 or more")
        self._writer = writer
        self._every = every
        self._with_layers = layers
        self._prefix = prefix
        self._total = Measured()
        self._layers: dict[str, LayerMeasured] = {}

    def __call__(self, step: StepMeasured) -> None:
        """Add the step, and write if it is time."""
        self._total += step.total
        if self._with_layers:
            for name, layer in step.layers.items():
                self._layers[name] = self._layers.get(name, LayerMeasured()) + layer
        if (step.step + 1) % self._every == 0:
            self._write(step.step)
            self._total, self._layers = Measured(), {}

    def _write(self, step: int) -> None:
        total = self._total
        exchanged = total.steps - total.skipped
        scalars = {
            "message_bytes": total.message_bytes / exchanged if exchanged else float("nan"),
            "sent_bytes": total.sent_bytes / total.steps,
            "ratio": total.ratio,
            "bits_per_coordinate": total.bits_per_coordinate,
            "nmse": total.nmse,
            "encode_ms": total.encode_ms / total.steps,
            "communicate_ms": total.communicate_ms / total.steps,
            "decode_ms": total.decode_ms / total.steps,
            "skipped": total.skipped,
        }
        self._add({f"{self._prefix}/{name}": value for name, value in scalars.items()}, step)
        for layer, measured in self._layers.items():
            self._add({f"{self._prefix}_{name}/{layer}": getattr(measured, name) for name in LAYER}, step)

    def _add(self, scalars: Mapping[str, float], step: int) -> None:
        for tag, value in scalars.items():
            if isfinite(value):
                self._writer.add_scalar(tag, value, step)
