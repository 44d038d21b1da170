"""``gradwire compare --federated``: one model, trained by clients through Flower, with several codecs side by side."""

from __future__ import annotations

import argparse

from gradwire.errors import MissingError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only the federated comparison has; the others are those of ``gradwire compare``."""
    # The names and defaults of settings.py, written out: this must not import PyTorch or Flower for --help.
    group = parser.add_argument_group("federated learning")
    group.add_argument(
        "--federated",
        action="store_true",
        help="train clients through Flower: models down, updates up; --codec is the clients' then",
    )
    group.add_argument("--clients", type=int, default=10, metavar="N", help="clients there are (default: 10)")
    group.add_argument(
        "--fraction", type=float, default=0.5, metavar="X", help="share of them that trains in a round (default: 0.5)"
    )
    group.add_argument("--rounds", type=int, metavar="N", help="rounds of a run (default: per data set)")
    group.add_argument("--local-epochs", type=int, default=1, metavar="E", help="a client's epochs (default: 1)")
    group.add_argument(
        "--downlink",
        default="sd:alpha=0.1",
        metavar="SPEC",
        help="codec of the models that the server sends, or dense (default: sd:alpha=0.1)",
    )
    group.add_argument(
        "--split",
        choices=["dirichlet", "writer", "even"],
        default="dirichlet",
        help="how samples are dealt to the clients (default: dirichlet, label shares by --alpha)",
    )
    group.add_argument(
        "--alpha",
        type=float,
        default=0.3,
        metavar="X",
        help="of Dirichlet: the smaller, the more unlike (default: 0.3)",
    )
    group.add_argument(
        "--samples", type=int, metavar="N", help="training samples that are dealt (default: per data set)"
    )
    group.add_argument(
        "--engine",
        choices=["in-process", "simulation"],
        default="simulation",
        help="Flower's simulation with ray (default), or all clients in this process",
    )


def run(args: argparse.Namespace) -> int:
    """Make the comparison; returns the exit code: 0, 130 when interrupted.

    Args:
        args: the options of :func:`add_arguments` and those of ``gradwire compare``: data, data_dir, codec, seeds,
            batch, lr, no_error_feedback, out, json.

    Raises:
        GradwireError: an option, a codec or a data set that is not good, or a package that is missing.
    """
    try:
        from gradwire.experiments.federated.runner import compare
    except ImportError as error:
        raise MissingError(
            f"gradwire compare --federated needs {error.name}: pip install 'gradwire[experiments,flower]'"
        ) from None
    return compare(args)
