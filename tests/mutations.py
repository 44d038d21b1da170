"""Builds with one rule taken out: each is applied in the processes of a test that must fail then.

A mutation changes the running program and not its text, so it says in a line what is wrong with it.
"""

import torch

import gradwire
from gradwire.torch import ddp, exchange, layout, start, steps, topologies, units, variants


def counts_infinite_steps():
    """D1: what is kept changes before the ranks know that the step counts."""
    send = steps.Steps._send

    def eager(self, bucket):
        for unit in self._units(bucket.pieces, bucket.index):
            if unit.place is not None:
                kept = self.buffers.at(unit.place)["residual"]
                kept += 1e-3
        send(self, bucket)

    steps.Steps._send = eager


def divides_by_the_norm():
    """D2: a vector is divided by its norm before it is encoded, also if that is zero."""
    encode = gradwire.encode

    def normalised(codec, x, rng):
        norm = float(x.norm()) if isinstance(x, torch.Tensor) else 1.0
        return encode(codec, x / norm * norm if norm else x / torch.zeros(()), rng)

    steps.gradwire = _like_gradwire(encode=normalised)


def one_memory_for_all_buckets():
    """D3: what is received of a bucket lies where that of the bucket before lay."""
    incoming = exchange.Exchange._incoming
    exchange.Exchange._incoming = lambda self, kind, slot, size: incoming(self, kind, 0, size)


def dense_at_first():
    """D4: the first step is not compressed."""
    ddp.WarmUp.at = lambda self, step: gradwire.Identity() if step == 0 else self.codec


def wants_a_dimension():
    """D5: the size of a parameter is its first dimension times the rest."""
    pieces = layout.Layout.pieces

    def of_rows(self, bucket, flat):
        return [piece for piece in pieces(self, bucket, flat) if piece.parameter.tensor.shape[0]]

    layout.Layout.pieces = of_rows


def saves_objects():
    """D6: the state holds an object of our own."""
    state = ddp.DDPHook.state_dict
    ddp.DDPHook.state_dict = lambda self: {**state(self), "codec": self.codec}


def keyed_by_position():
    """D7: residuals go by their order in the bucket, which is another one after the restart."""
    load = ddp.Buffers.load

    def shifted(self, name, *theirs):
        load(self, name, *theirs)
        self._flat[name] = self._flat[name].roll(self._parameters[0].size)

    ddp.Buffers.load = shifted


def sums_in_half_precision():
    """D8: the messages are added up in the gradient's own type."""
    mean = topologies._Gathered.mean

    def rounded(self, index, out):
        return out.copy_(mean(self, index, out).bfloat16().float())

    topologies._Gathered.mean = rounded


def casts_to_float16():
    """D9: gradients are cast to float16 as they are."""
    encode = gradwire.encode
    steps.gradwire = _like_gradwire(encode=lambda codec, x, rng: encode(codec, x.half().float().nan_to_num(), rng))


def forgets_its_residual():
    """D10: nothing is kept."""
    variants.Classic.settle = lambda self, x, buffers, add_sent: None


def silently_dense():
    """D11: a missing part makes messages dense without a word."""
    ddp.WarmUp.at = lambda self, step: gradwire.Identity()


def owner_keeps_its_own():
    """D12: an owner keeps the mean as it had it, while the others hold what they decoded."""
    mean = topologies._Sharded.mean

    def own(self, index, out):
        out = mean(self, index, out)
        for i, shard, q in self.means(units.Scratch()):
            if i == index:
                shard.of(out).copy_(q)
        return out

    topologies._Sharded.mean = own


def resets_on_load():
    """D13: residuals begin at zero after a load."""
    ddp.Buffers.load = lambda self, name, *theirs: self._flat[name].zero_()


def gathers_everything():
    """D14: messages go to all ranks whatever topology was asked for."""
    ddp.ShardedTopology = lambda group, feedback: topologies.GatherTopology(group)


def always_compresses():
    """D15: nobody asks whether it pays."""
    ddp.DDPHook.rest = lambda self: None
    won = start.Advice("gather", {"dense": 1.0, "gather": 0.5, "sharded": 0.6})
    start.advise = lambda n, world, buckets, measured: won


def copies_every_bucket():
    """D16: gradients are copied, and the copies kept until the step ends."""
    take = steps.Steps.take

    def copying(self, bucket):
        self.__dict__.setdefault("copies", []).append(bucket.flat.clone())
        take(self, bucket)

    steps.Steps.take = copying


def one_name_for_each_use():
    """D17: a tied weight counts once for each of its names."""
    named = torch.nn.Module.named_parameters
    torch.nn.Module.named_parameters = lambda self, **options: named(self, **{**options, "remove_duplicate": False})
    index = layout.Layout.pieces

    def doubled(self, bucket, flat):
        return [p for piece in index(self, bucket, flat) for p in [piece] * (1 + (piece.parameter.name == "b.weight"))]

    layout.Layout.pieces = doubled


class _like_gradwire:  # noqa: N801 - it stands in for the module
    def __init__(self, **changed):
        self.__dict__.update(vars(gradwire))
        self.__dict__.update(changed)


def indices_as_words(self, indices, n):
    """D18: an index takes 32 bits."""
    self.raw(indices.astype("<u4").tobytes())
