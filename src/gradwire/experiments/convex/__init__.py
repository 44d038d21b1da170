"""Convex optimisation with compressed messages: problems with exact solutions, one method a file, bytes counted.

Everything runs in one process on purpose: what is measured is bytes, not seconds. Iterates are float64; every vector
that a worker would send goes through a real codec (``gradwire.encode`` and ``decode``), so it is a message of float32
precision *relative to itself*. Methods that reach the solution send vectors that vanish there (gradients of one
worker, differences that shrink), so that precision does not bound their error.
"""

from gradwire.experiments.convex.accounting import Cost, cost
from gradwire.experiments.convex.compressed_gd import compressed_gd
from gradwire.experiments.convex.dcgd import dcgd
from gradwire.experiments.convex.diana import diana
from gradwire.experiments.convex.ef21 import ef21
from gradwire.experiments.convex.error_feedback import error_feedback
from gradwire.experiments.convex.problems import Logistic, Problem, Ridge, Split
from gradwire.experiments.convex.trace import Trace, trace
from gradwire.experiments.convex.transmit import Iterate

__all__ = [
    "Cost",
    "Iterate",
    "Logistic",
    "Problem",
    "Ridge",
    "Split",
    "Trace",
    "compressed_gd",
    "cost",
    "dcgd",
    "diana",
    "ef21",
    "error_feedback",
    "trace",
]
