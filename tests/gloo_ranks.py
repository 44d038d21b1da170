"""Processes of one gloo group, kept alive between tests; each runs the same function and gives its result back."""

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class RankError(AssertionError):
    """A rank raised; holds the exception's type and text of every rank that did."""

    def __init__(self, failures: dict[int, tuple[str, str, str]]) -> None:
        super().__init__("\n".join(f"rank {rank}: {trace}" for rank, (_, _, trace) in failures.items()))
        self.failures = {rank: (kind, text) for rank, (kind, text, _) in failures.items()}


def _serve(rank: int, world: int, store: str, connection: Any, mutation: Callable[[], None] | None) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    if mutation is not None:
        mutation()
    while True:
        try:
            function, args = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, function(rank, world, *args)))
        except Exception as error:
            connection.send((False, (type(error).__name__, str(error), traceback.format_exc())))


class GlooRanks:
    """`world` processes; `run(f, …)` calls f(rank, world, …) on all and returns the results in rank order.

    `mutation` is called once in each of them: it takes a rule of the library out, see tests/mutations.py.
    """

    def __init__(self, world: int, mutation: Callable[[], None] | None = None) -> None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.world = world
        self._folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(world)]
        self._connections = [mine for mine, _ in pairs]
        self._processes = [
            context.Process(
                target=_serve, args=(rank, world, str(Path(self._folder.name) / "store"), theirs, mutation), daemon=True
            )
            for rank, (_, theirs) in enumerate(pairs)
        ]
        for process in self._processes:
            process.start()

    def run(self, function: Callable[..., Any], *args: Any, seconds: float = 60) -> list[Any]:
        """Run on all ranks.

        Raises:
            RankError: some rank raised, died, or did not answer in time.
        """
        for connection in self._connections:
            connection.send((function, args))
        results: dict[int, Any] = {}
        failures: dict[int, tuple[str, str, str]] = {}
        for rank, connection in enumerate(self._connections):
            try:
                good, answer = connection.recv() if connection.poll(seconds) else (False, ("", "hangs", "hangs"))
            except EOFError:
                good, answer = False, ("", "died", "died")
            if good:
                results[rank] = answer
            else:
                failures[rank] = answer
        if failures:
            raise RankError(failures)
        return [results[rank] for rank in range(self.world)]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


def only(results: list[Any]) -> Any:
    """What all ranks agree on."""
    assert all(result == results[0] for result in results), results
    return results[0]
