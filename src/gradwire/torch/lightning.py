"""Compressed gradients in Lightning: one callback."""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel

from gradwire.errors import MissingError, ParameterError
from gradwire.torch.ddp import DDPHook
from gradwire.torch.start import compress
from gradwire.torch.whole import WholeState

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    raise MissingError("gradwire.torch.lightning needs Lightning; install it with: pip install lightning") from None

__all__ = ["Compress"]


class Compress(Callback):
    """Compress the gradients of a Trainer with strategy="ddp"; the residuals go with Lightning's checkpoints.

    With one device there is nothing to exchange, and nothing happens. A checkpoint that was made at another number of
    devices can be loaded. Under a precision with a GradScaler, what is kept is free of its scale; with units="step",
    or if it is the only one, the trainer's first optimizer is taken: gradients are a step ahead if it is an SGD.

    Every rank takes part in making a checkpoint, so call trainer.save_checkpoint on all of them, as Lightning asks for
    anyway. Rank 0 then holds the residuals of all ranks.

    Args:
        ratio: how many times smaller than float32; see `compress`.
        **choices: any other argument of `compress`.

    Attributes:
        hook: the `DDPHook`, from the start of fitting on; None before, or with one device.

    Raises:
        ParameterError: when fitting starts: as `compress`, or a strategy other than DDP on several devices.

    Example:
        >>> trainer = Trainer(strategy="ddp", devices=8, callbacks=[Compress(ratio=100)])        # doctest: +SKIP
    """

    def __init__(self, ratio: float = 100, **choices: Any) -> None:
        self.hook: DDPHook | None = None
        self._ratio = ratio
        self._choices = choices
        self._whole: WholeState | None = None
        self._loaded: dict[str, Any] | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach to the wrapped model."""
        model = trainer.strategy.model
        if not isinstance(model, DistributedDataParallel):
            if trainer.world_size == 1:
                return
            raise ParameterError(
                f"Compress works with strategy='ddp', and this trainer has {type(trainer.strategy).__name__}"
            )
        choices = {"scaler": getattr(trainer.precision_plugin, "scaler", None), **self._choices}
        if choices.get("units") == "step" or len(trainer.optimizers) == 1:
            choices.setdefault("optimizer", trainer.optimizers[0])
        if self.hook is not None and self._loaded is None:  # fitted before: the trainer has wrapped the model anew
            self._loaded = self.hook.state_dict()
        self.hook = compress(model, self._ratio, **choices)
        self._whole = WholeState(self.hook)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on from a checkpoint; Lightning may hand it over before or after the model is wrapped."""
        if self.hook is not None and self._loaded is not None:
            self.hook.load_state_dict(self._loaded)
        self._loaded = None

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all ranks on rank 0; collective."""
        return self._whole.state_dict() if self._whole is not None else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until training starts."""
        self._loaded = state_dict
