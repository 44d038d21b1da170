"""One rank's part of one run: train, measure, and hand back plain numbers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import cos, pi

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire import Identity, Rng
from gradwire.errors import ParameterError
from gradwire.experiments.compare.datasets import Dataset, load
from gradwire.experiments.compare.models import build
from gradwire.experiments.compare.settings import Task
from gradwire.torch import EF21, Classic, DDPHook, Measured, MomentumCorrection
from gradwire.torch.variants import NoFeedback, Variant

__all__ = ["Evaluation", "Part", "Progress", "takes_error_feedback", "train"]

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Evaluation:
    """This rank's share of the test set after some steps: sum of losses, and how many were right."""

    step: int
    loss: float
    correct: int


@dataclass(frozen=True)
class Part:
    """What one rank saw of a run: per step its loss and its hook's measurements; the share of the tests."""

    losses: list[float]
    measured: list[Measured]
    evaluations: list[Evaluation]
    parameters: int
    fingerprint: str
    error_feedback: bool
    seconds: float


def train(task: Task, group: dist.ProcessGroup, progress: Progress) -> Part:
    """Train on this rank; collective.

    Args:
        task: what to do.
        group: a gloo group of all ranks, for messages only.
        progress: called after every step with its number and loss.
    """
    rank = dist.get_rank(group)
    begin = time.perf_counter()
    data = load(task.data, task.data_dir)
    normalise = _normaliser(data)
    network = build(task.data, task.seed)
    error_feedback = takes_error_feedback(task, network)
    model = DistributedDataParallel(network)
    variant = _variant(task, error_feedback)
    optimizer = _optimizer(task, network, variant)
    ahead = task.ahead if isinstance(variant, Classic | MomentumCorrection) else 0.0
    hook = DDPHook(
        task.codec,
        topology=task.topology,
        error_feedback=variant,
        units=task.units,
        ahead=ahead,
        optimizer=optimizer if task.units == "step" or ahead else None,
        warm_up=task.warm_up,
        whole_model=task.whole_model,
        small=task.small,
        seed=task.seed,
        nmse_every=1,
        history=task.steps,
        group=group,
    ).register(model)
    moments = {task.steps * (i + 1) // task.evaluations for i in range(task.evaluations)}
    losses, evaluations = [], [_evaluate(network, data, normalise, 0, rank, task.workers)]
    for step, samples in enumerate(_batches(task, rank, len(data.train_y)), start=1):
        for held in optimizer.param_groups:
            held["lr"] = _learning_rate(task, step)
        optimizer.zero_grad()
        loss = cross_entropy(model(normalise(data.train_x[samples])), torch.from_numpy(data.train_y[samples]))
        loss.backward()  # type: ignore[no-untyped-call]
        if not hook.stats().steps[-1].skipped:
            optimizer.step()
        losses.append(loss.item())
        if step in moments:
            evaluations.append(_evaluate(network, data, normalise, step, rank, task.workers))
        progress(step, losses[-1])
    measured = list(hook.stats().steps)
    return Part(
        losses=losses,
        measured=measured,
        evaluations=evaluations,
        parameters=sum(p.numel() for p in network.parameters()),
        fingerprint=_fingerprint(network),
        error_feedback=error_feedback,
        seconds=time.perf_counter() - begin,
    )


def takes_error_feedback(task: Task, network: nn.Module) -> bool:
    """Whether the task wants error feedback and its codec is contractive on every layer.

    Raises:
        ParameterError: the codec cannot encode some layer.
    """
    codec = gradwire.from_spec(task.codec)
    sizes = {p.numel() for p in network.parameters() if p.dim() > 1 and p.numel() >= task.small}
    try:
        contractive = all(codec.guarantee(n).error < 1 for n in sizes)
    except ParameterError as error:
        raise ParameterError(f"{codec} does not suit the smallest layers of the network: {error}") from None
    return task.error_feedback and contractive


def _variant(task: Task, error_feedback: bool) -> Variant:
    """The variant of error feedback; where nothing is left out, momentum stays in the optimizer."""
    if not error_feedback:
        return NoFeedback()
    if task.feedback == "ef21":
        return EF21()
    dense = isinstance(gradwire.from_spec(task.codec), Identity)
    return MomentumCorrection(task.momentum) if task.feedback == "momentum" and not dense else Classic()


def _optimizer(task: Task, network: nn.Module, variant: Variant) -> torch.optim.Optimizer:
    """SGD whose momentum is left out where the variant has it: for the parameters that are compressed."""
    large = [p for p in network.parameters() if p.dim() > 1 and p.numel() >= task.small]
    others = [p for p in network.parameters() if p.dim() <= 1 or p.numel() < task.small]
    corrected = isinstance(variant, MomentumCorrection)
    groups: list[dict[str, object]] = [
        {"params": large, "momentum": 0.0 if corrected else task.momentum},
        {"params": others},
    ]
    return torch.optim.SGD(groups, task.lr, momentum=task.momentum)


def _batches(task: Task, rank: int, samples: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield this rank's sample numbers step by step: every epoch a new order, the same on all ranks."""
    together = task.workers * task.batch
    per_epoch = samples // together
    for step in range(task.steps):
        epoch, within = divmod(step, per_epoch)
        if within == 0:
            order = np.argsort(Rng(task.seed).child(epoch).words(samples), kind="stable")
        yield order[within * together + rank : (within + 1) * together : task.workers]


def _normaliser(data: Dataset) -> Callable[[npt.NDArray[np.uint8]], Tensor]:
    """Return the map from bytes to float32 of mean 0 and deviation 1 in every channel of the training set."""
    sample = data.train_x[:: max(1, len(data.train_x) // 5000)].astype(np.float64)
    mean, deviation = (torch.tensor(f(sample, axis=(0, 2, 3))).float()[:, None, None] for f in (np.mean, np.std))
    return lambda x: (torch.from_numpy(np.ascontiguousarray(x)).float() - mean) / deviation


def _learning_rate(task: Task, step: int) -> float:
    warm = max(1, task.steps // 20)
    if step <= warm:
        return task.lr * step / warm
    return task.lr * 0.5 * (1 + cos(pi * (step - warm) / (task.steps - warm + 1)))


@torch.no_grad()
def _evaluate(
    network: nn.Module,
    data: Dataset,
    normalise: Callable[[npt.NDArray[np.uint8]], Tensor],
    step: int,
    rank: int,
    workers: int,
) -> Evaluation:
    loss, correct = 0.0, 0
    for start in range(rank, len(data.test_y), 500 * workers):
        part = slice(start, min(start + 500 * workers, len(data.test_y)), workers)
        scores = network(normalise(data.test_x[part]))
        labels = torch.from_numpy(np.array(data.test_y[part]))
        loss += cross_entropy(scores, labels, reduction="sum").item()
        correct += int((scores.argmax(1) == labels).sum())
    return Evaluation(step, loss, correct)


def _fingerprint(network: nn.Module) -> str:
    """SHA-256 of all parameters, bit for bit."""
    digest = hashlib.sha256()
    for parameter in network.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()
