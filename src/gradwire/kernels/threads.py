"""How many threads the native kernels use: one number for the whole process."""

import os
from collections.abc import Mapping
from pathlib import Path

from gradwire import _core
from gradwire.errors import ParameterError

__all__ = ["default_threads", "get_threads", "limit_threads", "set_threads"]

MOST = 256
CGROUPS = Path("/sys/fs/cgroup")


def get_threads() -> int:
    """How many threads a call of the native kernels may use, its own included.

    Example:
        >>> get_threads() >= 1
        True
    """
    return _core.threads()


def set_threads(count: int | None) -> None:
    """Sets how many threads a call of the native kernels may use, its own included; messages do not depend on it.

    Definition: one setting for the process, 1 … 256; its threads sleep until a call on a long vector needs them, and
    serve one call at a time: a second one from another Python thread, meanwhile, runs on that thread alone.

    Args:
        count: the number, or None for the default: that of GRADWIRE_THREADS, else of OMP_NUM_THREADS, else of the
            CPUs that this process may use.

    Raises:
        ParameterError: count is no integer in 1 … 256.

    Example:
        >>> before = get_threads()
        >>> set_threads(2)
        >>> get_threads()
        2
        >>> set_threads(before)

    Source: docs/threads.md.
    """
    global _chosen
    if count is None:
        count, _chosen = default_threads(os.environ)
    elif isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise ParameterError(f"threads = {count!r} must be an integer in 1 … {MOST}, or None for the default")
    else:
        _chosen = True
    _core.set_threads(count)


def limit_threads(most: int) -> None:
    """Lowers the default to ``most`` threads, as an engine with a limit of its own asks for: torch.get_num_threads().

    Definition: what GRADWIRE_THREADS or :func:`set_threads` chose stays; a number that nobody chose does not rise.

    Args:
        most: at least 1.
    """
    if not _chosen:
        _core.set_threads(min(get_threads(), max(1, most)))


def default_threads(environment: Mapping[str, str]) -> tuple[int, bool]:
    """The number of threads where nothing is set by :func:`set_threads`, and whether GRADWIRE_THREADS chose it.

    Raises:
        ParameterError: GRADWIRE_THREADS is no integer in 1 … 256.

    Example:
        >>> default_threads({"GRADWIRE_THREADS": "3"}), default_threads({"OMP_NUM_THREADS": "4,2"})
        ((3, True), (4, False))
    """
    own = environment.get("GRADWIRE_THREADS", "").strip()
    if own:
        if not own.isdecimal() or not 1 <= int(own) <= MOST:
            raise ParameterError(f"GRADWIRE_THREADS = {own!r} must be an integer in 1 … {MOST}: correct or unset it")
        return int(own), True
    # OpenMP's variable may list a number for each level of nesting: the first one counts here.
    openmp = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if openmp.isdecimal() and int(openmp) > 0:
        return min(int(openmp), MOST), False
    return max(1, min(_processors(), MOST)), False


def _processors() -> int:
    """The CPUs that this process may use: those of its affinity mask, or as many as its control group's quota pays."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota()
    return count if quota is None else min(count, quota)


def _quota() -> int | None:
    """CPUs' worth of time that the control group of this process gets, rounded up; None without a limit."""
    found: list[int] = []
    for line in _groups():
        number, controllers, path = line.split(":", 2)
        group = path.lstrip("/")
        if number == "0":  # version 2: a limit of any group above holds as well
            for folder in (CGROUPS / group, *(CGROUPS / group).parents):
                if not folder.is_relative_to(CGROUPS):
                    break
                found += _share(folder / "cpu.max")
        elif "cpu" in controllers.split(","):
            for folder in (CGROUPS / "cpu" / group, CGROUPS / "cpu"):
                found += _share(folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
    return min(found, default=None)


def _groups() -> list[str]:
    """The control groups of this process, a line each: number, controllers, path."""
    try:
        return Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []


def _share(*files: Path) -> list[int]:
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        return [-(-int(quota) // int(period))] if int(quota) > 0 else []
    except (OSError, ValueError, ZeroDivisionError):  # there is none, or it is "max"
        return []


_chosen = False
set_threads(None)
