"""gradwire in PyTorch: the communication hook for DistributedDataParallel."""

from gradwire.errors import MissingError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingError("gradwire.torch needs PyTorch; install it with: pip install 'gradwire[torch]'") from None

from gradwire.torch.ddp import DDPHook
from gradwire.torch.local import LocalUpdates
from gradwire.torch.statistics import HookStats, Measured

__all__ = ["DDPHook", "HookStats", "LocalUpdates", "Measured"]
