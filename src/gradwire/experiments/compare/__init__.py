"""``gradwire compare``: one model, trained with several codecs on real processes, side by side."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from gradwire.errors import GradwireError, MissingError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    # The names and defaults of settings.py, written out: this must not import PyTorch for --help.
    parser.add_argument(
        "--data", choices=["digits", "fashion-mnist", "cifar10"], default="digits", help="data set (default: digits)"
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with the files of the data set")
    parser.add_argument(
        "--codec",
        action="append",
        metavar="SPEC",
        help="a codec to compare, e.g. rtopk:k=0.01,r=0.03; repeat it (default: identity, and top-k, random-k and "
        "rTop-k at 1 %%)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="W", help="worker processes (default: 4; under torchrun: all it started)"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimizer steps of a run")
    length.add_argument("--epochs", type=int, metavar="N", help="passes over the training set (default: per data set)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each codec (default: 3)")
    parser.add_argument("--batch", type=int, metavar="N", help="samples a worker takes a step")
    parser.add_argument("--lr", type=float, metavar="X", help="highest learning rate, the same for all codecs")
    parser.add_argument("--no-error-feedback", action="store_true", help="drop what a message leaves out")
    parser.add_argument(
        "--feedback",
        choices=["classic", "momentum", "ef21"],
        default="classic",
        help="how: plain residuals (default), with momentum correction, or EF21",
    )
    parser.add_argument(
        "--units",
        choices=["gradient", "step"],
        default="gradient",
        help="of residuals: gradients (default), or steps, learning rate times gradient",
    )
    parser.add_argument(
        "--warm-up", type=int, default=0, metavar="N", help="steps in which sparsifiers send more (default: 0)"
    )
    parser.add_argument(
        "--ahead",
        type=float,
        metavar="X",
        help="how far ahead, along its residual, a worker takes gradients (default: 1); federated: the share of its "
        "residual that a client trains ahead from (default: 0.5); 0 is plain error feedback",
    )
    parser.add_argument(
        "--topology", choices=["gather", "sharded"], default="gather", help="how messages travel (default: gather)"
    )
    parser.add_argument(
        "--whole-model", action="store_true", help="k counts for the model, and not for each of its layers"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/compare"),
        metavar="DIR",
        help="where the results go (default: results/compare)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else, on stdout")

    from gradwire.experiments import federated

    federated.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the comparison; returns the exit code: 0, 1 if a worker failed, 130 when interrupted.

    Raises:
        GradwireError: an option, a codec or a data set that is not good.
    """
    if args.federated:
        from gradwire.experiments import federated

        return federated.run(args)
    try:
        from gradwire.experiments.compare.runner import compare
    except ImportError as error:
        raise MissingError(
            f"gradwire compare needs {error.name}; install it with: pip install 'gradwire[experiments]'"
        ) from None
    try:
        return compare(args)
    except GradwireError:
        if int(os.environ.get("RANK", "0")) > 0:  # under torchrun, rank 0 says it for all
            sys.exit(2)
        raise
