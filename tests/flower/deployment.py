"""A SuperLink and SuperNodes as processes of their own on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
APP = Path(__file__).parent / "deployed"


class Deployment:
    """Starts them on free ports, runs the app in ``deployed/``, and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }
        (folder / "flwr").mkdir()
        here = f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (folder / "flwr" / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\n{here}')
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Deployment:
        self._start(
            "superlink",
            "flower-superlink",
            "--insecure",
            "--disable-runtime-dependency-installation",
            f"--port={self.port}",
        )
        try:
            wait(lambda: is_open(self.port), 30, "the SuperLink")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            self.kill(process)

    def node(self, part: int, name: str) -> subprocess.Popen[bytes]:
        """Start a SuperNode."""
        return self._start(
            name,
            "flower-supernode",
            "--insecure",
            f"--superlink=127.0.0.1:{self.port}",
            f"--port={free_port()}",
            f"--node-config=part={part}",
        )

    def run(self, **config: object) -> int:
        """Submit the app; the id of the run."""
        pairs = " ".join(f"{k}={json.dumps(v)}" for k, v in {"folder": str(self.folder), **config}.items())
        answer = json.loads(self._command("flwr", "run", str(APP), "--run-config", pairs, "--format", "json"))
        return int(answer["run-id"])

    def state(self, run: int) -> dict[str, Any]:
        """What Flower says of a run."""
        answer = json.loads(self._command("flwr", "list", "--run-id", str(run), "--format", "json"))
        found: dict[str, Any] = answer["runs"][0]
        return found

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started, as a power cut does."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def logs(self) -> str:
        """The last lines of all logs."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-4000:]}" for path in self.folder.glob("*.log"))

    def _start(self, name: str, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(BIN / command), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,  # a group of its own, so that it can be ended with what it starts
            )
        self.processes.append(process)
        return process

    def _command(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(BIN / arguments[0]), *arguments[1:]],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        port: int = s.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def wait(done: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.1)
