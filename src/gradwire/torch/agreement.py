"""The check at registration that all ranks speak of the same codec, model and version."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch.distributed as dist

from gradwire.errors import ParameterError
from gradwire.torch.exchange import gather_bytes

__all__ = ["agree"]


def agree(facts: Mapping[str, str], group: dist.ProcessGroup) -> None:
    """Compare the facts of all ranks; collective.

    Raises:
        ParameterError: on every rank, if any two ranks differ; the message names the fact and the ranks.
    """
    theirs = [json.loads(text) for text in gather_bytes(json.dumps(dict(facts)).encode(), group)]
    for fact, first in theirs[0].items():
        for rank, other in enumerate(theirs):
            if other.get(fact) != first:
                raise ParameterError(
                    f"the ranks differ in {fact}: rank 0 has {first}, rank {rank} has {other.get(fact)}; "
                    "start every rank with the same settings"
                )
