"""Lightning with compressed gradients: one callback.

python examples/torch/lightning_train.py
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gradwire.torch.lightning import Compress


class Net(LightningModule):
    """A network of two layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _):
        """The loss of one batch."""
        x, y = batch
        return nn.functional.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        """SGD with momentum."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def loader():
    """Samples with labels that a linear map gives them."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(2048, 64, generator=draws)
    y = (x @ torch.randn(64, 10, generator=draws)).argmax(1)
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


def train(folder, epochs, resume=None):
    """Fit the network, from a checkpoint if there is one to resume; the trainer."""
    torch.manual_seed(0)
    trainer = Trainer(
        strategy="ddp",
        accelerator="cpu",
        devices=2,
        callbacks=[Compress(ratio=40, topology="gather", when="always")],
        max_epochs=epochs,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        default_root_dir=folder,
    )
    trainer.fit(Net(), loader(), ckpt_path=resume)
    return trainer


if __name__ == "__main__":
    print(train("lightning", epochs=4).callbacks[0].hook.stats().total)
