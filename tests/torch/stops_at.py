"""python stops_at.py RANK STEP SIGNAL SCRIPT …: run the script; in its first life, the rank gets the signal at a step.

At step 0 it is where gradwire would be attached. All ranks look for missing ones for four seconds only.
"""

import os
import runpy
import signal
import sys
from datetime import timedelta

from torch.optim.optimizer import register_optimizer_step_post_hook

import gradwire.torch
from gradwire.torch import absence, agreement

absence.PATIENCE, agreement.ANSWER = timedelta(seconds=4), 1.0
rank, stop, name, *sys.argv = sys.argv[1:]
if stop == "0":
    agreement.ATTACH = timedelta(seconds=4)
steps = 0


def count(*_):
    global steps
    steps += 1
    if steps == int(stop):
        end()


def end(*_, **__):
    print(f"{name} at step {stop}", flush=True)
    os.kill(os.getpid(), signal.Signals[name])


if os.environ["RANK"] == rank and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
    register_optimizer_step_post_hook(count)
    if stop == "0":
        gradwire.torch.compress = end
runpy.run_path(sys.argv[0], run_name="__main__")
