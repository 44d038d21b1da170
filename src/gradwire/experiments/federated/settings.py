"""What one federated comparison is made of; everything that decides its numbers."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import gradwire
from gradwire.errors import ParameterError

__all__ = ["DATA", "DEFAULT_CODECS", "DENSE", "TAIL", "Settings", "Task"]

DENSE = "dense"
"""The run without gradwire: the plain strategy, models and replies as Flower sends them."""

TAIL = 10
"""Accuracy is the mean over so many last rounds: with few clients in a round, who are unlike, a single one wavers."""

DEFAULT_CODECS = (
    "rtopk:k=0.01,r=0.03",
    "topk:k=0.01",
    "randomk:k=0.01",
    "topk:k=0.035,values=sd(alpha=0.15)",  # about 1 % of the bytes
    "sd:alpha=0.5",
)


@dataclass(frozen=True)
class Defaults:
    """What a data set is trained with unless options say otherwise."""

    rounds: int
    batch: int
    lr: float
    samples: int


DATA = {
    "digits": Defaults(rounds=60, batch=16, lr=0.05, samples=1297),
    "fashion-mnist": Defaults(rounds=60, batch=32, lr=0.05, samples=10_000),
    "cifar10": Defaults(rounds=100, batch=32, lr=0.05, samples=10_000),
}

AHEAD = 0.5


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        data, data_dir: the data set and where the user keeps it.
        codec: of the uplink in text form, or DENSE for plain FedAvg in both directions.
        downlink: of the downlink, in text form, or DENSE to send each model whole.
        seed: of initial weights, split, sampling of clients, order of samples and the codecs' randomness.
        clients: how many there are; chosen: how many train in a round.
        split: "dirichlet" (label shares), "writer" (blocks of the file's order) or "even"; alpha: of Dirichlet.
        rounds, local_epochs, batch, lr: of training, plain SGD at the clients.
        samples: how many training samples are shared out.
        error_feedback: keep residuals at the clients; ahead: the share of them that training starts from.
        engine: "in-process" or "simulation" (Flower's, with ray).
    """

    data: str
    data_dir: str | None
    codec: str
    downlink: str
    seed: int
    clients: int
    chosen: int
    split: str
    alpha: float
    rounds: int
    local_epochs: int
    batch: int
    lr: float
    samples: int
    error_feedback: bool
    ahead: float
    engine: str

    @property
    def step(self) -> int:
        """The rounds between two looks at the test set on the way."""
        return max(1, self.rounds // 10)

    @property
    def evaluated(self) -> tuple[int, ...]:
        """The rounds after which the test set is looked at: ten times on the way, then in every round of the tail."""
        return tuple(r for r in range(1, self.rounds + 1) if r % self.step == 0 or r > self.rounds - TAIL)


@dataclass(frozen=True)
class Settings:
    """A whole comparison."""

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
    def of(args: argparse.Namespace) -> Settings:
        """Settings from the command line.

        Raises:
            ParameterError: an option outside its range, or a codec that does not exist.
        """
        defaults = DATA[args.data]

        def given(name: str, otherwise: float) -> float:
            value = getattr(args, name, None)
            return otherwise if value is None else value

        rounds, batch = int(given("rounds", defaults.rounds)), int(given("batch", defaults.batch))
        lr, samples = float(given("lr", defaults.lr)), int(given("samples", defaults.samples))
        counts = {
            "rounds": rounds,
            "batch": batch,
            "clients": args.clients,
            "local-epochs": args.local_epochs,
            "seeds": args.seeds,
            "samples": samples,
        }
        for option, value in counts.items():
            if value < 1:
                raise ParameterError(f"--{option} is {value}; give 1 or more")
        if not 0 < args.fraction <= 1:
            raise ParameterError(f"--fraction is {args.fraction}; give a share in (0, 1]")
        ahead = float(given("ahead", AHEAD))
        if not 0 <= ahead <= 1:
            raise ParameterError(f"--ahead is {ahead}; give a share in [0, 1]")
        for option, number in (("lr", lr), ("alpha", args.alpha)):
            if not 0 < number < float("inf"):
                raise ParameterError(f"--{option} is {number}; give a positive number")
        if args.split == "writer" and args.data != "digits":
            raise ParameterError(f"--split writer needs a data set in order of its writers, as digits; not {args.data}")
        codecs = (DENSE, *(str(gradwire.from_spec(spec)) for spec in args.codec or DEFAULT_CODECS if spec != DENSE))
        if len(set(codecs)) < len(codecs):
            raise ParameterError("a codec is named twice with --codec; name each once")
        common = Task(
            data=args.data,
            data_dir=None if args.data_dir is None else str(args.data_dir),
            codec="",
            downlink=args.downlink if args.downlink == DENSE else str(gradwire.from_spec(args.downlink)),
            seed=0,
            clients=args.clients,
            chosen=max(1, round(args.fraction * args.clients)),
            split=args.split,
            alpha=args.alpha,
            rounds=rounds,
            local_epochs=args.local_epochs,
            batch=batch,
            lr=lr,
            samples=samples,
            error_feedback=not args.no_error_feedback,
            ahead=ahead,
            engine=args.engine,
        )
        return Settings(common, codecs, args.seeds, args.out, args.json)
