"""What the ranks do in the tests of killing, hanging and attaching. Every job is called as job(rank, world, …)."""

import runpy
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from torch.nn.parallel import DistributedDataParallel

import gradwire
from ddp_jobs import RTOPK, TOPK, attach, backward, net
from gradwire.torch import DDPHook, absence, agreement

TRAIN = Path(__file__).parents[1] / "examples" / "torch" / "train.py"


def example(rank, world, folder, topology):
    """The example, without a break; what it has to say at the end."""
    settings = {"steps": 200, "every": 50, "codec": "rtopk:k=0.02,r=0.06", "patience": 60}
    return runpy.run_path(str(TRAIN))["train"](Path(folder), topology=topology, **settings)


def sleeper(rank, world, who, topology):
    """One rank is late for step 2; what each gets, and after how many seconds."""
    patience, absence.PATIENCE = absence.PATIENCE, timedelta(seconds=2)
    model, _ = attach(net(), TOPK, topology=topology, timeout=timedelta(seconds=3))
    for step in range(2):
        backward(model, rank, step)
    begin = time.monotonic()
    if rank == who:
        time.sleep(8)
    try:
        backward(model, rank, 2)
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    finally:
        absence.PATIENCE = patience
    return None


def absentee(rank, world, who):
    """One rank does not attach while the others wait; what each gets, and after how many seconds."""
    model, hook = DistributedDataParallel(net()), DDPHook(TOPK)
    patience, agreement.ATTACH = agreement.ATTACH, timedelta(seconds=1)
    begin = time.monotonic()
    try:
        if rank == who:
            time.sleep(3)
            with suppress(gradwire.ParameterError):
                agreement.agree({}, range(world))  # so that the ranks count alike, for the next test
        else:
            hook.register(model)
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    finally:
        agreement.ATTACH = patience
    return None


def differ(rank, world, what):
    """Rank 1 differs from the others; what each gets, and after how many seconds."""
    odd = rank == 1
    model, codec, version = net(), RTOPK if what == "codec" and odd else TOPK, gradwire.__version__
    if what == "model layout" and odd:
        model.add_module("renamed", model.pop(6))
    begin = time.monotonic()
    try:
        if what == "gradwire version" and odd:
            gradwire.__version__ = "0.0.9"
        attach(model, codec)
    except gradwire.ParameterError as error:
        return str(error), time.monotonic() - begin
    finally:
        gradwire.__version__ = version
    return None
