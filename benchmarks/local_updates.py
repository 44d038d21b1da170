"""Local updates on Fashion-MNIST: test accuracy by how far ahead along its residual a rank trains.

Ranks are gloo processes of one thread each. The mean of the last five rounds' accuracies, then mean and standard
deviation over seeds; bytes are those that rank 0 sent.

    python benchmarks/local_updates.py [--ranks 4] [--every 20] [--rounds 30] [--ahead 0 0.5 1] [--outer nesterov] …
"""

import argparse
import statistics
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.functional import cross_entropy

from gradwire import Rng
from gradwire.experiments.compare.datasets import load
from gradwire.experiments.compare.models import build
from gradwire.torch import LocalUpdates
from gradwire.torch.local import nesterov

LAST = 5
OUTER = {"nesterov": nesterov, "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1.0)}
INNER = {
    "adam": lambda parameters: torch.optim.Adam(parameters, 1e-3),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
}


def train(rank: int, options: argparse.Namespace, codec: str, ahead: float, seed: int, folder: str, out: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks)
    data = load("fashion-mnist", options.data_dir)
    model = build("fashion-mnist", seed)
    inner = INNER[options.inner](model.parameters())
    updates = LocalUpdates(
        model, inner, codec, every=options.every, outer=OUTER[options.outer], topology=options.topology, ahead=ahead
    )
    test = torch.from_numpy(data.test_x[rank :: options.ranks].copy()), data.test_y[rank :: options.ranks]
    accuracies = []
    words = Rng(seed).child(rank)
    for step in range(options.rounds * options.every):
        chosen = words.child(step).words(options.batch) % len(data.train_y)
        x, y = torch.from_numpy(data.train_x[chosen]), torch.from_numpy(data.train_y[chosen])
        inner.zero_grad()
        cross_entropy(model(x.float() / 255 - 0.5), y).backward()
        inner.step()
        if updates.step() and step >= (options.rounds - LAST) * options.every:
            model.eval()
            with torch.no_grad():
                right = (model(test[0].float() / 255 - 0.5).argmax(1) == torch.from_numpy(test[1])).sum()
            model.train()
            dist.all_reduce(right)
            accuracies.append(100 * int(right) / len(data.test_y))
    if rank == 0:
        out.put((statistics.mean(accuracies), updates.stats().sent_bytes))
    dist.destroy_process_group()


def accuracy(options: argparse.Namespace, codec: str, ahead: float, seed: int) -> tuple[float, int]:
    out = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, (options, codec, ahead, seed, folder, out), options.ranks)
    return out.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--every", type=int, default=20, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--codec", default="topk:k=0.01")
    parser.add_argument("--ahead", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--outer", choices=OUTER, default="nesterov")
    parser.add_argument("--inner", choices=INNER, default="adam")
    parser.add_argument("--topology", choices=("sharded", "gather"), default="sharded")
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    if options.rounds < LAST or options.seeds < 2:
        parser.error(f"give {LAST} rounds and 2 seeds at least")
    print(f"{options.ranks} ranks, {options.rounds} rounds of {options.every} steps of {options.batch} images")
    print(f"{'codec':40}{'ahead':>6}{'accuracy':>16}{'MB sent':>10}")
    for codec, ahead in [("identity", 0.0), *((options.codec, ahead) for ahead in options.ahead)]:
        results = [accuracy(options, codec, ahead, seed) for seed in range(options.seeds)]
        of = [result for result, _ in results]
        shown = f"{statistics.mean(of):.1f} ± {statistics.stdev(of):.1f} %"
        print(f"{codec:40}{ahead:6g}{shown:>16}{results[0][1] / 1e6:10.2f}", flush=True)


if __name__ == "__main__":
    main()
