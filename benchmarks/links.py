"""A slow link between two ranks on one machine: two network namespaces, and a token bucket at either end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from types import TracebackType

__all__ = ["RATES", "Link"]

RATES = {"unshaped": None, "1 Gbit/s": 1e9, "100 Mbit/s": 1e8}
PORT = 29555


class Link:
    """Two namespaces with a pair of virtual interfaces between them; the end of the `with` removes them.

    It exits with a sentence where it may not make them.
    """

    def __init__(self) -> None:
        self._names = [f"gradwire{os.getpid()}{end}" for end in "ab"]
        self._cards = [f"gw{os.getpid()}{end}" for end in "ab"]
        self._addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self) -> Link:
        if sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
            sys.exit("this needs Linux, root, and ip and tc of the package iproute2: it makes network namespaces")
        signal.signal(signal.SIGTERM, _stop)
        try:
            for name in self._names:
                _do("ip", "netns", "add", name)
            _do("ip", "link", "add", self._cards[0], "type", "veth", "peer", "name", self._cards[1])
            for name, card, address in zip(self._names, self._cards, self._addresses, strict=True):
                _do("ip", "link", "set", card, "netns", name)
                _do("ip", "-n", name, "addr", "add", f"{address}/24", "dev", card)
                for device in (card, "lo"):
                    _do("ip", "-n", name, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            self.__exit__(None, None, None)
            sys.exit(f"no network namespaces can be made here: {error.stderr.strip() or error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def shape(self, rate: float | None) -> None:
        """Let so many bits a second through in each direction; None takes the limit away."""
        for name, card in zip(self._names, self._cards, strict=True):
            tc = ["ip", "netns", "exec", name, "tc", "qdisc"]
            subprocess.run([*tc, "del", "dev", card, "root"], capture_output=True, check=False)
            if rate is not None:
                bucket = ["rate", f"{rate:.0f}bit", "burst", "128kb", "latency", "20ms"]
                _do(*tc, "add", "dev", card, "root", "tbf", *bucket)

    def run(self, script: str, *arguments: str, seconds: float) -> str:
        """Run a Python script as two ranks, one in each namespace, one thread each; return what rank 0 prints."""
        ranks = []
        for rank, (name, card) in enumerate(zip(self._names, self._cards, strict=True)):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": self._addresses[0],
                "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": card,
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "ERROR",  # or else: "the hostname of the client socket cannot be retrieved"
            }
            command = ["ip", "netns", "exec", name, sys.executable, script, *arguments]
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        try:
            printed = [process.communicate(timeout=seconds)[0] for process in ranks]
            if any(process.returncode for process in ranks):
                sys.exit(f"a rank of {script} failed; it said why above")
            return printed[0]
        finally:
            for process in ranks:
                process.kill()


def sent_bytes() -> int:
    """Bytes that this rank's end of the link has sent, with everything that the network adds to them."""
    with open("/proc/self/net/dev") as lines:
        return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("gw"))


def _stop(*_: object) -> None:
    """End as from an exception, so that the namespaces are removed; a second signal must not come between."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("stopped")


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
