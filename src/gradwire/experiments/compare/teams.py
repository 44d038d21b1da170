"""The worker processes: started here on this machine, or started by torchrun wherever it runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist

from gradwire.experiments.compare.settings import Task
from gradwire.experiments.compare.training import Evaluation, Part, Progress, train
from gradwire.torch import Measured
from gradwire.torch.collectives import gather_bytes

__all__ = ["LocalTeam", "Team", "TorchrunTeam", "WorkerError"]

TIMEOUT = timedelta(minutes=5)


class WorkerError(RuntimeError):
    """A worker died or raised; says which and why."""


class Team(Protocol):
    """W processes that run one task after the other."""

    def run(self, task: Task, progress: Progress) -> list[Part]:
        """Run a task; return what every rank saw, in rank order (rank 0 only; empty elsewhere)."""

    def close(self) -> None:
        """End the processes."""


class LocalTeam:
    """Processes on this machine, kept alive from run to run; they end with this process, whatever ends it."""

    def __init__(self, workers: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gradwire-")
        store = str(Path(self._folder.name) / "store")
        threads = max(1, _cores() // workers)
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        with _environment(OMP_NUM_THREADS=str(threads), **_loopback()):
            for rank in range(workers):
                mine, theirs = context.Pipe()
                process = context.Process(
                    target=_serve, args=(rank, workers, store, threads, theirs), name=f"worker {rank}", daemon=True
                )
                process.start()
                theirs.close()
                self._connections.append(mine)
                self._processes.append(process)

    def run(self, task: Task, progress: Progress) -> list[Part]:
        """Run a task on all workers.

        Raises:
            WorkerError: a worker died or raised.
        """
        for rank, connection in enumerate(self._connections):
            try:
                connection.send(task)
            except OSError:
                self._fail(rank, None)
        parts: dict[int, Part] = {}
        while len(parts) < len(self._connections):
            waiting = [c for rank, c in enumerate(self._connections) if rank not in parts]
            for ready in wait(waiting):
                rank = next(i for i, connection in enumerate(self._connections) if connection is ready)
                try:
                    kind, content = self._connections[rank].recv()
                except (EOFError, OSError):
                    self._fail(rank, None)
                if kind == "progress":
                    progress(*content)
                elif kind == "part":
                    parts[rank] = content
                else:
                    self._fail(rank, content)
        return [parts[rank] for rank in range(len(self._connections))]

    def _fail(self, rank: int, reason: str | None) -> None:
        """Raise the error that explains the end: a death before an exception, for it causes those of the others."""
        time.sleep(0.5)  # a worker that dies breaks the others' connections before its own end is seen
        for other, process in enumerate(self._processes):
            if process.exitcode not in (None, 0):
                raise WorkerError(f"worker {other} died with exit code {process.exitcode}; the run was ended")
        raise WorkerError(f"worker {rank} failed: {reason or 'it ended without a word'}")

    def close(self) -> None:
        """End the processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()


def _serve(rank: int, world: int, store: str, threads: int, connection: Connection) -> None:
    """Be worker `rank`: run tasks until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us; it ends us
    sys.stdout.flush()
    os.dup2(2, 1)  # standard output belongs to that process too
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=TIMEOUT)
    group = dist.new_group(backend="gloo")
    progress = _throttled(lambda step, loss: connection.send(("progress", (step, loss))))
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            connection.send(("part", train(task, group, progress if rank == 0 else _silent)))
        except OSError:  # nobody listens any more
            return
        except Exception as error:
            if os.environ.get("GRADWIRE_TRACEBACK"):
                traceback.print_exc()
            with contextlib.suppress(OSError):
                connection.send(("error", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"))
            return


class TorchrunTeam:
    """The processes of torchrun, of which this one is a worker like the others."""

    def __init__(self) -> None:
        torch.set_num_threads(max(1, _cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
        torch.use_deterministic_algorithms(True)
        dist.init_process_group("gloo", timeout=TIMEOUT)
        self.rank = dist.get_rank()
        self._group = dist.new_group(backend="gloo")

    def run(self, task: Task, progress: Progress) -> list[Part]:
        """Do this rank's part, and gather everyone's.

        Raises:
            WorkerError: this worker, or its connection to another one, failed.
        """
        try:
            part = train(task, self._group, _throttled(progress) if self.rank == 0 else _silent)
            texts = gather_bytes(json.dumps(dataclasses.asdict(part)).encode(), self._group)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise WorkerError(f"worker {self.rank} failed: {reason}") from error
        return [_part(json.loads(text)) for text in texts] if self.rank == 0 else []

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()


def _part(values: dict[str, Any]) -> Part:
    """Undo dataclasses.asdict."""
    values["measured"] = [Measured(**measured) for measured in values["measured"]]
    values["evaluations"] = [Evaluation(**evaluation) for evaluation in values["evaluations"]]
    return Part(**values)


def _throttled(progress: Progress) -> Progress:
    """At most ten calls a second: a display needs no more, and the training should not wait for it."""
    last = 0.0

    def sometimes(step: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 0.1:
            last = now
            progress(step, loss)

    return sometimes


def _silent(step: int, loss: float) -> None:
    return


def _cores() -> int:
    """Processor cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _loopback() -> dict[str, str]:
    """Tell gloo to use the loopback interface, unless the user has named one: host names may not resolve."""
    interface = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {"GLOO_SOCKET_IFNAME": interface} if interface and "GLOO_SOCKET_IFNAME" not in os.environ else {}


@contextlib.contextmanager
def _environment(**values: str) -> Any:
    """Set environment variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
