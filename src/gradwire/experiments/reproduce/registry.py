"""The closed table of experiments. A module is imported when its experiment is asked for, or listed."""

from importlib import import_module

from gradwire.errors import ParameterError
from gradwire.experiments.reproduce.experiment import Experiment

__all__ = ["EXPERIMENTS", "load"]

EXPERIMENTS = {
    "rate-distortion": "gradwire.experiments.rate_distortion",
    "minimax-estimation": "gradwire.experiments.minimax_estimation",
    "rtopk-common-gradient": "gradwire.experiments.rtopk_common_gradient",
    "ridge-bodyfat": "gradwire.experiments.ridge_bodyfat",
    "logistic-breast-cancer": "gradwire.experiments.logistic_breast_cancer",
    "distributed-logistic": "gradwire.experiments.distributed_logistic",
}
"""Name of the command → the module whose ``EXPERIMENT`` it is."""


def load(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ParameterError: there is none.
    """
    if name not in EXPERIMENTS:
        raise ParameterError(f"{name!r} is no experiment: give one of {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment
