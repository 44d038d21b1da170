"""The networks that are trained: small enough for processors, with layers like those of large ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

__all__ = ["build"]


class ConvNet(nn.Sequential):
    """Two convolutions and two linear layers, for images of one channel."""

    def __init__(self, height: int, width: int, channels: int, hidden: int, pools: int) -> None:
        pool = [nn.MaxPool2d(2)] if pools == 2 else []
        area = (height >> pools) * (width >> pools)
        super().__init__(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            *pool,
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * area, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 10),
        )


class Residual(nn.Module):
    """Two convolutions with a shortcut; group normalisation, which needs no statistics shared between workers."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(8, outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H/stride, W/stride)."""
        y = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet8(nn.Sequential):
    """The smallest residual network of He et al.'s CIFAR family: three blocks of 16, 32 and 64 channels."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.GroupNorm(8, 16),
            nn.ReLU(),
            Residual(16, 16, 1),
            Residual(16, 32, 2),
            Residual(32, 64, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )


def build(data: str, seed: int) -> nn.Module:
    """Return the network for a data set, its weights drawn from the seed; global generators are left alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if data == "digits":
            return ConvNet(8, 8, channels=16, hidden=128, pools=1)
        if data == "fashion-mnist":
            return ConvNet(28, 28, channels=16, hidden=128, pools=2)
        return ResNet8()
