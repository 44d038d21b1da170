"""The hook's state in distributed checkpoints, and in those that one rank writes for all."""

import numpy as np
import pytest

import checkpoint_jobs as jobs

TOPOLOGIES = ["gather", "sharded"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_distributed_checkpoint_gives_the_same_bits_and_at_other_numbers_of_ranks_the_same_sum(
    two, three, tmp_path, topology
):
    saved = two.run(jobs.save, str(tmp_path), topology)
    assert two.run(jobs.load, str(tmp_path), topology) == [ends for ends, _ in saved]
    elsewhere = three.run(jobs.load_elsewhere, str(tmp_path), topology)
    debt = saved[0][1]
    assert np.abs(debt).max() > 0.01
    for theirs, step, parameters in elsewhere:
        assert step == 3
        np.testing.assert_allclose(theirs, debt, rtol=1e-5, atol=1e-6)
        assert parameters == elsewhere[0][2]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_whole_state_is_on_rank_0(two, topology):
    common = ["sharded", "step", "version", "world_size"]
    assert two.run(jobs.whole, topology) == [
        (["rank0", "rank1", *common], True),
        (["rank1", *common], True),
    ]


def test_a_rank_that_does_not_take_part_in_collecting_is_named(three):
    for who, waiting in ((2, [0]), (0, [1, 2])):
        errors = three.run(jobs.whole_without, who)
        for rank in range(3):
            if rank in waiting:
                assert f"rank {who} does not take part in collecting the state" in errors[rank]
            else:
                assert errors[rank] is None
