"""Train the example with Accelerate for four epochs, and for two and then two; print what came of it, on rank 0."""

import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "accelerate_train.py"
train, folder = runpy.run_path(str(EXAMPLE))["train"], Path(sys.argv[1])


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


through, hook = train(folder / "through", 0, 4)
first, _ = train(folder / "parts", 0, 2)
half = weights(first)
second, resumed = train(folder / "parts", 2, 4)
saved = torch.load(folder / "parts" / "epoch2" / "custom_checkpoint_0.pkl", weights_only=True)

if dist.get_rank() == 0:
    total = hook.stats().total
    print("steps", total.steps, resumed.stats().total.steps, saved["step"])
    print("ratio", total.ratio)
    print("parts", sorted(key for key in saved if key.startswith("rank")))
    print("same", all(map(torch.equal, weights(through), weights(second))))
    print("same as half way", all(map(torch.equal, weights(through), half)))
dist.destroy_process_group()
