"""What the ranks do in the tests of the sharded topology. Every job is called as job(rank, world, …) on all ranks."""

import os
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

import gradwire
from ddp_jobs import _written, fingerprint
from gradwire import Rng
from gradwire.torch.exchange import Exchange
from gradwire.torch.gathered import Gathered
from gradwire.torch.pieces import PIECE, swap
from gradwire.torch.replicas import check_replicas
from gradwire.torch.sharded import Sharded
from gradwire.torch.shards import Section, cut, pack


def build(topology, parts, group, **settings):
    if topology == "gather":
        return Gathered(parts, group, **settings)
    return Sharded(cut(parts, dist.get_world_size(group)), group, **settings)


SIZES = (700, 1, 1303)  # does not divide by 2, 3, 4 or 8
N = sum(SIZES) + 37


def sections(codec, sizes=SIZES, dense=37):
    return [Section(gradwire.from_spec(codec), tuple(sizes)), Section(gradwire.Identity(), (dense,))]


def vector(rank, round, n=N):
    return torch.randn(n, generator=torch.Generator().manual_seed(1000 * round + rank))


def make(topology, codec, **settings):
    return build(topology, sections(codec), dist.new_group(backend="gloo"), **settings)


def rounds(rank, world, topology, codec, count, error_feedback=True, skip=None):
    """Run some rounds; give each mean's print, the residuals and what the law of conservation leaves over.

    In round `skip` the last rank has an infinite entry first, and then the round is made again without it.
    """
    settings = {"check_every": 1} if topology == "sharded" else {}
    exchange = make(topology, codec, seed=3, error_feedback=error_feedback, **settings)
    residual, prints = exchange.start(), []
    total = torch.zeros(exchange.n, dtype=torch.float64)
    for round in range(count):
        x = vector(rank, round)
        before = x.clone(), residual.sent.clone(), residual.owned.clone()
        if round == skip:
            spoiled = x.clone()
            if rank == world - 1:
                spoiled[11] = float("inf")
            done = exchange.exchange(round, spoiled, residual)
            assert done.mean is None
            assert torch.equal(done.residual.sent, before[1])
            assert torch.equal(done.residual.owned, before[2])
        done = exchange.exchange(round, x, residual)
        assert torch.equal(x, before[0])
        assert torch.equal(residual.sent, before[1])
        assert torch.equal(residual.owned, before[2])
        residual = done.residual
        total += done.mean.double()
        prints.append(fingerprint([done.mean]))
    return prints, total.numpy(), residual.sent.numpy(), residual.owned.numpy()


def by_definition(world, codec, count, wrong=None):
    """The means of the sharded topology, computed by one process from the formulas alone."""
    shards = cut(sections(codec), world)
    n = N
    sent, owned, prints = [torch.zeros(n) for _ in range(world)], torch.zeros(n), []
    for round in range(count):
        summed, result = torch.zeros(n), torch.zeros(n)
        for rank in range(world):
            total, index = vector(rank, round) + sent[rank], 0
            draws = Rng(3).child(round).child(0 if wrong == "same draws" else 2 * rank)
            for shard in shards:
                for s in shard:
                    message = gradwire.encode(s.codec, s.of(total), draws.child(index))
                    gradwire.add(message, s.of(summed), 1.0 / world)
                    s.of(sent[rank]).copy_(s.of(total) - torch.from_numpy(gradwire.decode(message, s.stop - s.start)))
                    index += 1
        total = summed + owned
        for owner, shard in enumerate(shards):
            draws = Rng(3).child(round).child(2 * owner + 1)
            for index, s in enumerate(shard):
                message = gradwire.encode(s.codec, s.of(total), draws.child(index))
                gradwire.add(message, s.of(result), 1.0)
        owned = torch.zeros(n) if wrong == "owner keeps nothing" else total - result
        prints.append(fingerprint([result]))
    return prints


def traffic(rank, world, topology, codec, n, sizes_of_group):
    """Bytes sent a round in groups of the first 2, 4, … ranks: by its own count and by the kernel's."""
    seen = {}
    for size in sizes_of_group:
        group = dist.new_group(list(range(size)), backend="gloo")
        if rank < size:
            exchange = build(topology, [Section(gradwire.from_spec(codec), (n,))], group)
            x = vector(rank, 0, n)
            residual = exchange.exchange(0, x, exchange.start()).residual
            dist.barrier(group)
            counted, written = exchange.bytes.sent_bytes, _written()
            for round in (1, 2):
                residual = exchange.exchange(round, x, residual).residual
            seen[size] = ((exchange.bytes.sent_bytes - counted) / 2, (_written() - written) / 2)
        dist.barrier()
    return seen


def letters(rank, world):
    """Blobs of any length, empty ones too, through both collectives; whether each came as it was."""
    exchange, good = Exchange(dist.new_group(backend="gloo")), True

    def blob(sender, receiver, round):
        return bytes([sender, receiver, round]) * ((sender * 7 + receiver * round) % 5 * 1000**round)

    for round in range(3):
        got = exchange.to_each(round, 0, 0, [blob(rank, other, round) for other in range(world)])
        good = good and [bytes(one) for one in got] == [blob(other, rank, round) for other in range(world)]
        got = exchange.to_all(round, 0, 0, blob(rank, 1, round))
        good = good and [bytes(one) for one in got] == [blob(other, 1, round) for other in range(world)]
    return good


def long_letters(rank, world, how):
    """Blobs of many pieces, of none, and of different lengths a rank, in turn with short ones.

    Returns whether each came as it was, the bytes counted and the bytes that this rank's blobs have for others.
    """
    exchange, good, counted, due = Exchange(dist.new_group(backend="gloo")), True, [], []
    sizes = [3 * PIECE + 7, 5, PIECE, PIECE + 1, 0, 2 * PIECE]

    def blob(sender, receiver, round):
        size = sizes[(sender + round) % len(sizes)] + (receiver if how == "each" else 0)
        return np.random.default_rng([sender, receiver if how == "each" else 0, round]).bytes(size)

    for round in range(len(sizes)):
        before, mine = exchange.sent_bytes, [blob(rank, other, round) for other in range(world)]
        got = exchange.to_each(round, 0, 0, mine) if how == "each" else exchange.to_all(round, 0, 0, mine[0])
        good = good and [bytes(one) for one in got] == [blob(other, rank, round) for other in range(world)]
        counted.append(exchange.sent_bytes - before)
        due.append(sum(len(one) for other, one in enumerate(mine) if other != rank))
    return good, counted, due


def order(rank, world):
    """What `swap` asks for and sends, in order: (kind, rank, bytes)."""
    calls = []

    def noting(kind, call, peer):
        def run(tensor, **settings):
            calls.append((kind, settings[peer], tensor.numel()))
            return call(tensor, **settings)

        return run

    receive, send = dist.irecv, dist.isend
    dist.irecv, dist.isend = noting("ask", receive, "group_src"), noting("send", send, "group_dst")
    try:
        data = [np.full(2 * PIECE + 1, rank, np.uint8) for _ in range(world)]
        swap(data, [np.empty_like(one) for one in data], dist.new_group(backend="gloo"))
    finally:
        dist.irecv, dist.isend = receive, send
    return calls


def leaves_before_pieces(rank, world, how, leave):
    """Rank 1 hangs, or dies, after the heads of a long exchange; the time-out is 2 seconds."""
    exchange = Exchange(dist.new_group(backend="gloo", timeout=timedelta(seconds=2)))
    if rank == 1:
        exchange._swap = lambda *args: os._exit(7) if leave == "dies" else [time.sleep(5)] * world
    begin, blob = time.monotonic(), bytes(2 * PIECE)
    try:
        exchange.to_all(0, 0, 0, blob) if how == "all" else exchange.to_each(0, 0, 0, [blob] * world)
    finally:
        assert rank == 1 or time.monotonic() - begin < 4


def overflow_at_owner(rank, world):
    """A mean that is finite with a residual of the owner that is not, together: all ranks skip."""
    exchange = make("sharded", "topk:k=0.05")
    x = torch.full((exchange.n,), 3e38)
    residual = exchange.start()._replace(owned=torch.full((exchange.owned,), 3e38 if rank == 0 else 0.0))
    done = exchange.exchange(0, x, residual)
    return done.mean is None, done.residual is residual


def one_fails(rank, world, topology, half):
    """The error of each rank when the last one fails to encode, for the owners or as one."""
    exchange = make(topology, "topk:k=0.05")
    encode, halves = exchange._encode, []

    def fails(*args):
        halves.append(args)
        return [1 // 0] if len(halves) == 1 + half else encode(*args)

    if rank == world - 1:
        exchange._encode = fails
    try:
        exchange.exchange(0, vector(rank, 0), exchange.start())
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def at_another_round(rank, world, topology):
    """The error of each rank when rank 1 is a round ahead."""
    exchange = make(topology, "topk:k=0.05")
    try:
        exchange.exchange(int(rank == 1), vector(rank, 0), exchange.start())
    except RuntimeError as error:
        return str(error)
    return None


def diverge(rank, world, who):
    """The error of the check when some ranks hold another bit."""
    tensor = torch.ones(5, dtype=torch.bfloat16)
    if rank in who:
        tensor[3] += 0.01
    try:
        check_replicas([tensor, torch.tensor(2.0)], dist.group.WORLD, "the model")
    except RuntimeError as error:
        return str(error)
    return None


def diverging_mean(rank, world):
    """The error of the exchange's own check when rank 1 decodes something else; a check every second round."""
    exchange = make("sharded", "topk:k=0.05", check_every=2)
    receive = exchange.bytes.to_all

    def spoilt(round, slot, status, blob):
        blobs = receive(round, slot, status, blob)
        return blobs if rank != 1 else [other(bytes(b), o) for o, b in enumerate(blobs)]

    def other(blob, owner):
        segments = exchange.shards[owner]
        return pack([gradwire.encode(s.codec, torch.ones(s.stop - s.start), 0) for s in segments])

    exchange.bytes.to_all = spoilt
    quiet = exchange.exchange(1, vector(rank, 1), exchange.start()).mean is not None
    try:
        exchange.exchange(2, vector(rank, 2), exchange.start())
    except RuntimeError as error:
        return quiet, str(error)
    return quiet, None


def few_entries(rank, world, topology, n):
    """The mean of a vector with fewer entries than ranks, and of one in a group of this rank alone."""
    parts = [Section(gradwire.Identity(), (n,))]
    exchange = build(topology, parts, dist.new_group(backend="gloo"))
    mean = exchange.exchange(0, torch.full((n,), float(rank)), exchange.start()).mean
    groups = [dist.new_group([r], backend="gloo") for r in range(world)]
    exchange = build(topology, parts, groups[rank])
    own = exchange.exchange(0, torch.full((n,), float(rank)), exchange.start()).mean
    return mean.tolist(), torch.equal(own, torch.full((n,), float(rank))), exchange.bytes.sent_bytes
