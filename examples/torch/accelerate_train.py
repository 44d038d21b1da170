"""Hugging Face Accelerate with compressed gradients: one line, and one more for its checkpoints.

torchrun --nproc-per-node=2 examples/torch/accelerate_train.py
"""

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradwire.torch
from gradwire.torch.whole import WholeState


def loader():
    """Samples with labels that a linear map gives them."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(2048, 64, generator=draws)
    y = (x @ torch.randn(64, 10, generator=draws)).argmax(1)
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


def train(folder, first, epochs):
    """Train from epoch `first` on, from the checkpoint of the one before it; the model and the hook."""
    torch.manual_seed(0)
    loading = DataLoaderConfiguration(use_seedable_sampler=True)  # else a resumed run has another order of samples
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, dataloader_config=loading)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader())

    hook = gradwire.torch.compress(model, ratio=40, topology="gather", when="always", optimizer=optimizer)
    accelerator.register_for_checkpointing(WholeState(hook))

    if first:
        accelerator.load_state(f"{folder}/epoch{first}")
    for epoch in range(first, epochs):
        batches.set_epoch(epoch)
        for x, y in batches:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.save_state(f"{folder}/epoch{epoch + 1}")
    return model, hook


if __name__ == "__main__":
    print(train("accelerate", 0, 4)[1].stats().total)
