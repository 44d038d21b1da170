"""On what was measured, and by which code: a row of another machine or build is never taken for one of this."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import gradwire
from gradwire import _core
from gradwire.kernels.threads import default_threads

__all__ = ["Machine", "build", "this_machine"]

CPUINFO = Path("/proc/cpuinfo")

MEASURED = ("errors.py", "rng.py", "codecs", "kernels", "wire")
"""What of the package decides how fast a codec is, beside the native core."""


@dataclass(frozen=True)
class Machine:
    """Processor, the cores that this process may use, the instruction set that runs, and the kernels' backend."""

    processor: str
    cores: int
    simd: str
    backend: str

    def slug(self) -> str:
        """The processor as the name of a file.

        Example:
            >>> Machine("Intel(R) Xeon(R) CPU @ 2.20GHz", 4, "avx2", "native").slug()
            'intel-xeon-cpu-2-20ghz'
        """
        plain = re.sub(r"\((r|tm|c)\)", " ", self.processor.lower())
        return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "unknown"


def this_machine() -> Machine:
    """The machine that runs this."""
    return Machine(_processor(), default_threads({})[0], _core.simd(), os.environ.get("GRADWIRE_BACKEND", "native"))


def _processor() -> str:
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def build() -> str:
    """A hash of the code that is measured: the native core and the floors that codecs stand on."""
    seen = hashlib.sha256(Path(_core.__file__).read_bytes())
    root = Path(gradwire.__file__).parent
    for name in MEASURED:
        for file in sorted(root.joinpath(name).rglob("*.py")) or [root / name]:
            seen.update(file.read_bytes())
    return seen.hexdigest()[:16]
