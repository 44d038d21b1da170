"""Which entries are sent."""

import torch
from torch import Tensor

from gradwire.errors import ParameterError

__all__ = ["reaching", "top"]


def top(x: Tensor, r: int) -> Tensor:
    """Ascending indices of the r largest magnitudes, ties to the lower index: int64 (r,), on x's device.

    Magnitudes are compared as the integers that the bits of x make once the sign is cleared.

    Example:
        >>> top(torch.tensor([1.0, -3, 2, 3, -2]), 3)
        tensor([1, 2, 3])
    """
    n = len(x)
    if not 0 <= r <= n:
        raise ParameterError("r must be at most len(x)")
    if r in (0, n):
        return torch.arange(r, device=x.device)
    keys = x.view(torch.int32) & 0x7FFFFFFF
    # Which of several equal keys torch.topk takes is not told, but the least of the r largest is the same for all.
    least = torch.topk(keys, r, sorted=False).values.min()
    above = torch.nonzero(keys > least).view(-1)
    ties = torch.nonzero(keys == least).view(-1)[: r - len(above)]
    return torch.cat([above, ties]).sort().values


def reaching(x: Tensor, threshold: float) -> Tensor:
    """Ascending indices of the entries with |x_i| ≥ threshold > 0: int64, on x's device.

    Example:
        >>> reaching(torch.tensor([1.0, -3, 2]), 2.0)
        tensor([1, 2])
    """
    return torch.nonzero(x.abs() >= threshold).view(-1)
