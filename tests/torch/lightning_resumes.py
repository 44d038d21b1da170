"""Train the example with Lightning for four epochs, and for two and then two; print what came of it, on rank 0."""

import runpy
import sys
from pathlib import Path

import torch
from lightning.pytorch.utilities import rank_zero_only

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "lightning_train.py"
torch.set_num_threads(1)
example, folder = runpy.run_path(str(EXAMPLE)), Path(sys.argv[1])
train = example["train"]


def weights(trainer):
    return [p.detach().clone() for p in trainer.lightning_module.parameters()]


through = train(folder / "through", 4)
first = train(folder / "parts", 2)
half = weights(first)
checkpoint = first.checkpoint_callback.best_model_path
second = train(folder / "parts", 4, resume=checkpoint)
same = all(map(torch.equal, weights(through), weights(second)))
callback = second.callbacks[0]
steps = [through.callbacks[0].hook.stats().total.steps, callback.hook.stats().total.steps]
second.fit_loop.max_epochs = 5
second.fit(second.lightning_module, example["loader"]())  # a new hook, which goes on where the old one was
saved = torch.load(checkpoint, weights_only=True)["callbacks"]["Compress"]

if rank_zero_only.rank == 0:
    print("steps", *steps, saved["step"])
    print("steps after another fit", callback.hook.state_dict()["step"])
    print("ratio", through.callbacks[0].hook.stats().total.ratio)
    print("parts", sorted(key for key in saved if key.startswith("rank")))
    print("same", same)
    print("same as half way", all(map(torch.equal, weights(through), half)))
