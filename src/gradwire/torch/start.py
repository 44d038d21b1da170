"""One line to start: choose what suits the model and the link, say what and why, and become the model's hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire import Codec
from gradwire.advise import Advice, Speeds, advise
from gradwire.errors import ParameterError
from gradwire.policy import WarmUp, codec_for_ratio
from gradwire.torch.agreement import agree, own_group
from gradwire.torch.ddp import DDPHook
from gradwire.torch.layout import Layout
from gradwire.torch.scaling import unwrapped
from gradwire.torch.speeds import measure

__all__ = ["compress"]

WARM_UP = 100
AHEAD = 1.0


def compress(
    model: DistributedDataParallel,
    ratio: float = 100,
    *,
    codec: Codec | str | None = None,
    topology: str | None = None,
    warm_up: int | WarmUp | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    ahead: float | None = None,
    when: str = "pays",
    resume: Mapping[str, Any] | None = None,
    say: Callable[[str], object] | None = print,
    **choices: Any,
) -> DDPHook:
    """Compress the gradients of a DistributedDataParallel model about `ratio` times, if that is faster here.

    What is not named is chosen: a codec whose messages, with the tensors that go dense, are `ratio` times smaller than
    float32; error feedback; if the codec is a sparsifier, a warm-up of 100 steps, and gradients taken a step ahead if
    an SGD is given as optimizer; and, from the speeds of the link and of the codec, which are measured now, the faster
    topology – or none: where dense is predicted to be as fast, DDP's own all-reduce stays. Rank 0 says once what was
    chosen and why.

    Collective: every rank calls it, at the same place of its script.

    Args:
        model: the wrapped model.
        ratio: how many times smaller than float32; of the whole gradient, as far as its dense tensors allow.
        codec: instead of the one for the ratio.
        topology: "gather" or "sharded".
        warm_up: steps, or a `WarmUp`; 0 is none.
        optimizer, ahead: as in `DDPHook`.
        when: "pays", or "always" to compress whatever was measured.
        resume: a state of the hook, to go on from with the topology (or the rest) of its run, whatever is measured now.
        say: what rank 0 calls with the text; None for silence.
        **choices: any other argument of `DDPHook`.

    Returns:
        the hook: its statistics and its state. If dense was chosen, it rests: see `DDPHook.resting`.

    Raises:
        ParameterError: as `DDPHook` and its `register`; a ratio below 1.
        RuntimeError: some rank does not call it within 30 seconds.

    Example:
        >>> model = DistributedDataParallel(net)                             # doctest: +SKIP
        >>> hook = gradwire.torch.compress(model, ratio=100)                 # doctest: +SKIP
        gradwire: topk:k=0.0447,values=sd(alpha=0.05) by gather, error feedback Classic(decay=1.0), …
    """
    if not isinstance(model, DistributedDataParallel):
        raise ParameterError(
            f"compress wants a DistributedDataParallel model and got {type(model).__name__}; wrap it first"
        )
    if when not in ("pays", "always"):
        raise ParameterError(f"when is {when!r}; give 'pays' or 'always'")
    layout = Layout(model.module.named_parameters(), choices.get("small", 1024), choices.get("dense", ()))
    chosen = _codec(ratio, layout) if codec is None else gradwire.from_spec(codec) if isinstance(codec, str) else codec
    sparsifier = isinstance(getattr(chosen, "k", None), float)
    if warm_up is None:
        warm_up = WARM_UP if sparsifier else 0
    if ahead is None:
        possible = isinstance(unwrapped(optimizer), torch.optim.SGD) and choices.get("error_feedback", True) is True
        ahead = AHEAD if possible and sparsifier else 0.0
    if ahead or choices.get("units") == "step":
        choices = {**choices, "ahead": ahead, "optimizer": optimizer}
    if resume is not None:
        topology = "sharded" if resume.get("sharded") else "gather"
        when = "always" if any(key.startswith("rank") for key in resume) else "never"
    hook = DDPHook(chosen, topology=topology or "gather", warm_up=warm_up, **choices)
    ranks = dist.get_process_group_ranks(model.process_group)
    agree({"arguments of compress": f"codec={chosen}, topology={topology}, when={when}"}, ranks)
    group = hook.group = hook.group or own_group(ranks, hook.timeout)
    device = next((p.tensor.device for p in layout.parameters), torch.device("cpu"))
    speeds = measure(chosen, layout.n, model.process_group, device, group)
    buckets = 1 + -(-4 * layout.n // model.bucket_bytes_cap)
    advice = advise(max(1, layout.n), len(ranks), buckets, speeds)
    pays = when == "pays" and advice.choice != "dense" and layout.n > 0
    if topology is None:
        hook.topology = min("gather", "sharded", key=advice.seconds.__getitem__)
    if when == "always" or pays:
        hook.register(model)
    else:
        hook.rest()
    if resume is not None:
        hook.load_state_dict(resume)
    if say is not None and dist.get_rank(group) == 0:
        say(_text(hook, layout, speeds, advice, len(ranks), when))
    return hook


def _codec(ratio: float, layout: Layout) -> Codec:
    """The codec that brings the whole gradient to the ratio; half of the bytes at least are for what is compressed."""
    every = sum(p.size for p in layout.parameters if p.tensor.requires_grad)
    if not layout.n:
        return codec_for_ratio(ratio)
    bits = max(32 * every / ratio - 32 * (every - layout.n), 16 * every / ratio)
    return codec_for_ratio(min(1e4, max(ratio, 32 * layout.n / bits)) if ratio >= 1 else ratio)


def _text(hook: DDPHook, layout: Layout, speeds: Speeds, advice: Advice, world: int, when: str) -> str:
    """What was chosen and why."""
    trained = [p for p in layout.parameters if p.tensor.requires_grad]
    every = sum(p.size for p in trained)
    message = layout.n * speeds.bits / 8 + 4 * (every - layout.n)
    times = ", ".join(f"{name} {_time(seconds)}" for name, seconds in advice.seconds.items())
    ratio = f"{4 * every / message:.3g}× smaller: {_size(message)} instead of {_size(4 * every)} a step and rank"
    of = f"{len(layout.compressed)} of {len(trained)} tensors compressed, the others dense"
    if hook.resting:
        why = "there is one rank only" if world == 1 else "compression would not be faster here"
        if not layout.n:
            why = "all tensors are small"
        elif when == "never":
            why = "they did in the run that goes on"
        return (
            f"gradwire: gradients stay dense: {why}. Predicted for one exchange: {times}. "
            f"{hook.codec} would be {ratio}. when='always' compresses nevertheless."
        )
    warm = f", warm-up of {hook.warm_up.steps} steps" if hook.warm_up.steps else ""
    if hook.ahead:
        warm += f", gradients {'a step' if hook.ahead == 1 else f'{hook.ahead:g} steps'} ahead"
    verdict = (
        f"{advice.gain:.2g}× faster than dense" if advice.choice != "dense" else "slower than dense, but asked for"
    )
    return (
        f"gradwire: {hook.codec} by {hook.topology}, error feedback {hook.variant}{warm}; {of}. "
        f"{ratio}. Predicted for one exchange: {times}; {verdict}."
    )


def _size(size: float) -> str:
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
