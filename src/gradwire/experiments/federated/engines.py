"""Where a run takes place: in this process, or in Flower's simulation."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from gradwire.errors import MissingError
from gradwire.experiments.federated.app import Look, Progress, client_app, run_server
from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.experiments.federated.settings import Task
from gradwire.flower.meter import Meter

__all__ = ["ENGINES", "Outcome"]

FIRST_NODE = 2  # 1 is the server


@dataclass(frozen=True)
class Outcome:
    """What a run gave."""

    looks: list[Look]
    meter: Meter
    parameters: int
    seconds: float


def in_process(task: Task, progress: Progress) -> Outcome:
    """All nodes in this process, one after the other: the same numbers every time."""
    grid = InProcessGrid(client_app(task), range(FIRST_NODE, FIRST_NODE + task.clients))
    return _timed(task, grid, progress)


def simulation(task: Task, progress: Progress) -> Outcome:
    """Flower's simulation, its nodes in ray's processes.

    Raises:
        MissingError: ray is not there.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingError("Flower's simulation needs ray: pip install 'flwr[simulation]', or give --engine in-process")
    from flwr.simulation import run_simulation

    outcomes: list[Outcome] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        outcomes.append(_timed(task, grid, progress))

    run_simulation(
        server_app=server,
        client_app=client_app(task),
        num_supernodes=task.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    if not outcomes:
        raise MissingError("Flower's simulation ended without a result: its log says why; or give --engine in-process")
    return outcomes[0]


ENGINES: dict[str, Callable[[Task, Progress], Outcome]] = {"in-process": in_process, "simulation": simulation}


def _timed(task: Task, grid: Grid, progress: Progress) -> Outcome:
    start = time.perf_counter()
    logger: Any = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)  # Flower tells every round; the progress bar does as well
    try:
        looks, meter, parameters = run_server(task, grid, progress)
    finally:
        logger.setLevel(level)
    return Outcome(looks, meter, parameters, time.perf_counter() - start)
