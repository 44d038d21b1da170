"""gradwire in PyTorch: hooks for DistributedDataParallel and FSDP2, and local updates."""

from gradwire.errors import MissingError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingError("gradwire.torch needs PyTorch; install it with: pip install 'gradwire[torch]'") from None

from gradwire.policy import WarmUp
from gradwire.torch.ddp import DDPHook
from gradwire.torch.local import LocalUpdates
from gradwire.torch.start import compress
from gradwire.torch.states import merge_states
from gradwire.torch.statistics import HookStats, LayerMeasured, Measured, StepMeasured
from gradwire.torch.variants import EF21, Classic, MomentumCorrection

__all__ = [
    "EF21",
    "Classic",
    "DDPHook",
    "HookStats",
    "LayerMeasured",
    "LocalUpdates",
    "Measured",
    "MomentumCorrection",
    "StepMeasured",
    "WarmUp",
    "compress",
    "merge_states",
]
