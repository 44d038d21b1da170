"""Scripts as real processes: one a rank, or all of them under torchrun."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
COMMON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

# A process that has imported what takes long, and from which the ranks are forked.
_forks: Any = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["torch.distributed", "torch.nn.parallel", "torch.optim", "gradwire.torch"])


class Launched:
    """Starts processes whose output goes to files of a folder, and ends them all when it is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ranks: list[Any] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.join()
        if self._process is not None:
            self._process.terminate()  # torchrun's workers are in sessions of their own: it must end them
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def ranks(self, world: int, *command: object) -> None:
        """Run a Python script on each rank, as a launcher of one's own does."""
        place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
        for rank in range(world):
            environment = {**COMMON, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            log, words = self._log(rank), [str(word) for word in command]
            self._ranks.append(_forks.Process(target=_be_script, args=(log, environment, words), daemon=True))
            self._ranks[-1].start()

    def torchrun(self, world: int, restarts: int, *command: object) -> None:
        """Run a Python script under torchrun."""
        options = ["--standalone", f"--nproc-per-node={world}", f"--max-restarts={restarts}", "--monitor-interval=0.1"]
        # From one life to the next, torchrun of PyTorch 2.13 keeps its store, where gloo finds the dead's addresses.
        self.run(BIN / "torchrun", *options, *command, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    def run(self, *command: object, **environment: str) -> None:
        """Run a command that starts the ranks itself."""
        with self._log(0).open("wb") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **COMMON, **environment},
                cwd=self._folder,
                start_new_session=True,
            )

    def wait(self, seconds: float, ends: int | None = None) -> list[int | None]:
        """Wait until so many processes, by default all, have ended; the exit codes, None of those that still run."""
        due = time.monotonic() + seconds
        while True:
            codes = [rank.exitcode for rank in self._ranks] if self._process is None else [self._process.poll()]
            if sum(code is not None for code in codes) >= (len(codes) if ends is None else ends):
                return codes
            assert time.monotonic() < due, f"after {seconds} s the exit codes are {codes}\n{self.all_output()}"
            time.sleep(0.05)

    def output(self, rank: int = 0) -> str:
        """What a rank has printed so far, or all ranks that the command has started itself."""
        return self._log(rank).read_text(errors="replace")

    def all_output(self) -> str:
        """The end of what each rank has printed."""
        return "\n".join(f"--- rank {rank}\n{self.output(rank)[-3000:]}" for rank in range(max(1, len(self._ranks))))

    def _log(self, rank: int) -> Path:
        return self._folder / f"rank{rank}.log"


def _be_script(log: Path, environment: dict[str, str], command: list[str]) -> None:
    os.environ.update(environment)
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    import torch

    torch.set_num_threads(1)  # OMP_NUM_THREADS comes too late; and another number of threads gives other bits
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
