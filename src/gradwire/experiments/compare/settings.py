"""What one comparison is made of; everything that decides its numbers."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import gradwire
from gradwire.errors import ParameterError

__all__ = ["DATA", "DEFAULT_CODECS", "Settings", "Task"]

DEFAULT_CODECS = ("identity", "topk:k=0.01", "randomk:k=0.01", "rtopk:k=0.01,r=0.03")


@dataclass(frozen=True)
class Defaults:
    """What a data set is trained with unless options say otherwise."""

    epochs: int
    batch: int
    lr: float


DATA = {
    "digits": Defaults(epochs=20, batch=16, lr=0.05),
    "fashion-mnist": Defaults(epochs=2, batch=32, lr=0.05),
    "cifar10": Defaults(epochs=3, batch=32, lr=0.1),
}

AHEAD = 1.0


@dataclass(frozen=True)
class Task:
    """One run: a codec and a seed, and all that they have in common with the other runs.

    Attributes:
        data: name of the data set; data_dir: where the user keeps it, or None.
        codec: text form.
        seed: of initial weights, order of samples and the codec's randomness.
        workers: how many processes; batch: samples a worker takes a step.
        steps: optimizer steps; evaluations: how often the test set is looked at, the end included.
        lr: highest learning rate (linear warm-up over 5 % of the steps, then a half cosine to 0).
        momentum: of SGD, applied to the averaged gradient.
        small: tensors with fewer entries go dense; error_feedback: wanted where the codec is contractive.
        feedback: its variant, "classic", "momentum" (correction, with factor masking) or "ef21".
        warm_up: steps in which sparsifiers send more, see `WarmUp`; topology: "gather" or "sharded".
        whole_model: k counts for all compressed parameters together; units: of what is kept, "gradient" or "step".
        ahead: how far along its residual a worker takes its gradients; 0 is at the model itself.
    """

    data: str
    data_dir: str | None
    codec: str
    seed: int
    workers: int
    batch: int
    steps: int
    evaluations: int
    lr: float
    momentum: float
    small: int
    error_feedback: bool
    feedback: str = "classic"
    warm_up: int = 0
    topology: str = "gather"
    whole_model: bool = False
    units: str = "gradient"
    ahead: float = 0.0


@dataclass(frozen=True)
class Settings:
    """A whole comparison: the runs' common task, and the codecs and seeds that it is repeated with."""

    common: Task
    codecs: tuple[str, ...]
    seeds: int
    out: Path
    json: bool

    @property
    def tasks(self) -> list[Task]:
        """All runs, every codec once before the next seed, so that an early end leaves a fair comparison."""
        return [
            dataclasses.replace(self.common, codec=codec, seed=seed)
            for seed in range(self.seeds)
            for codec in self.codecs
        ]

    @staticmethod
    def of(args: argparse.Namespace, workers: int, samples: int, test_samples: int) -> Settings:
        """Settings from the command line.

        Args:
            args: parsed options.
            workers: how many processes there will be.
            samples, test_samples: sizes of the training set and of the test set.

        Raises:
            ParameterError: an option outside its range, or a codec that does not exist.
        """
        defaults = DATA[args.data]
        batch = defaults.batch if args.batch is None else args.batch
        epochs = defaults.epochs if args.epochs is None else args.epochs
        lr = defaults.lr if args.lr is None else args.lr
        for option, value in (("workers", workers), ("batch", batch), ("epochs", epochs), ("seeds", args.seeds)):
            if value < 1:
                raise ParameterError(f"--{option} is {value}; give 1 or more")
        ahead = args.ahead if args.ahead is not None else 0.0 if args.feedback == "ef21" else AHEAD
        if not 0 <= ahead < float("inf"):
            raise ParameterError(f"--ahead is {ahead}; give 0 or more")
        if ahead and args.feedback == "ef21":
            raise ParameterError("--ahead goes along residuals, and --feedback ef21 keeps none; give --ahead 0")
        if args.warm_up < 0:
            raise ParameterError(f"--warm-up is {args.warm_up}; give 0 or more")
        if args.steps is not None and args.steps < 1:
            raise ParameterError(f"--steps is {args.steps}; give 1 or more")
        if not 0 < lr < float("inf"):
            raise ParameterError(f"--lr is {lr}; give a positive number")
        if workers * batch > samples:
            raise ParameterError(
                f"--workers {workers} with --batch {batch} wants {workers * batch} samples a step, {args.data} has "
                f"{samples} for training; lower one of them"
            )
        codecs = tuple(str(gradwire.from_spec(spec)) for spec in args.codec or DEFAULT_CODECS)
        if len(set(codecs)) < len(codecs):
            raise ParameterError("a codec is named twice with --codec; name each once")
        steps = args.steps if args.steps is not None else epochs * (samples // (workers * batch))
        looks = steps * workers * batch // test_samples  # at most as many images are tested as are trained on
        common = Task(
            data=args.data,
            data_dir=None if args.data_dir is None else str(args.data_dir),
            codec="",
            seed=0,
            workers=workers,
            batch=batch,
            steps=steps,
            evaluations=min(steps, max(4, min(20, looks))),
            lr=lr,
            momentum=0.9,
            small=256,
            error_feedback=not args.no_error_feedback,
            feedback=args.feedback,
            warm_up=args.warm_up,
            topology=args.topology,
            whole_model=args.whole_model,
            units=args.units,
            ahead=ahead,
        )
        return Settings(common, codecs, args.seeds, args.out, args.json)
