"""Each named rule has a test that fails where the rule is taken out: `pytest -m long tests/torch/test_mutations.py`."""

import importlib.util
from pathlib import Path

import pytest

import ddp_jobs
import mutations
import test_wires
from gloo_ranks import GlooRanks, RankError
from gradwire import wire

pytestmark = pytest.mark.long


def beside(name):
    """A test module of this folder, which is not on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook, machine, start, state = map(beside, ("test_ddp_hook", "test_ddp_machine", "test_ddp_start", "test_ddp_state"))

TOPK = ddp_jobs.TOPK
RULES = {
    "D1": (mutations.counts_infinite_steps, 2, hook.test_d1_infinite_gradient_is_skipped_and_training_goes_on, (0,)),
    "D2": (mutations.divides_by_the_norm, 2, hook.test_d2_layer_with_zero_gradient_is_exact, (TOPK,)),
    "D3": (
        mutations.one_memory_for_all_buckets,
        4,
        hook.test_d3_many_buckets_work_on_gloo_and_give_the_bits_of_one_bucket,
        (),
    ),
    "D4": (mutations.dense_at_first, 2, hook.test_d4_the_first_step_is_compressed, ()),
    "D5": (mutations.wants_a_dimension, 2, hook.test_d5_scalar_parameter_works, ()),
    "D6": (mutations.saves_objects, 2, state.test_d6_state_is_tensors_and_numbers_and_loads_with_weights_only, ()),
    "D7": (
        mutations.keyed_by_position,
        4,
        state.test_d7_resume_gives_the_bits_of_a_run_that_never_stopped,
        ("folder", {}, 6),
    ),
    "D8": (mutations.sums_in_half_precision, 2, hook.test_d8_half_precision_on_gloo_is_summed_in_float32, ("float16",)),
    "D9": (mutations.casts_to_float16, 2, start.test_d9_values_in_half_precision_keep_large_and_small_gradients, ()),
    "D10": (
        mutations.forgets_its_residual,
        2,
        start.test_d10_convolutions_unused_layers_and_prime_sizes_have_their_residuals,
        ("topk:k=0.01",),
    ),
    "D11": (
        mutations.silently_dense,
        4,
        hook.test_d11_bytes_are_those_of_the_codec_as_the_kernel_counts_them,
        ("topk:k=0.05",),
    ),
    "D12": (
        mutations.owner_keeps_its_own,
        4,
        hook.test_d12_replicas_are_bit_identical_and_residuals_are_each_ranks_own,
        (TOPK, "sharded"),
    ),
    "D13": (mutations.resets_on_load, (4, 2), state.test_d13_the_mean_is_kept_on_request, ("folder",)),
    "D14": (
        mutations.gathers_everything,
        4,
        machine.test_d14_sharded_traffic_does_not_grow_with_the_ranks_and_gathered_does,
        (),
    ),
    "D15": (
        mutations.always_compresses,
        2,
        start.test_d15_dense_stays_where_compression_does_not_pay_and_it_is_said,
        (),
    ),
    "D17": (mutations.one_name_for_each_use, 2, hook.test_d17_tied_weights_have_one_residual, ()),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_test_of_a_rule_fails_without_the_rule(rule, tmp_path, capsys):
    mutation, worlds, test, args = RULES[rule]
    args = [str(tmp_path) if arg == "folder" else arg for arg in args]
    ranks = [GlooRanks(world, mutation) for world in (worlds if isinstance(worlds, tuple) else (worlds,))]
    try:
        with pytest.raises((AssertionError, RankError)) as failure:
            test(*reversed(ranks), *args)
    finally:
        for one in ranks:
            one.close()
    with capsys.disabled():
        lines = [line for line in str(failure.value).splitlines() if line.strip()]
        reason = lines[-1] if lines else f"line {failure.traceback[-1].lineno + 1} of {failure.traceback[-1].path.name}"
        print(f"\n{rule}, {mutation.__doc__} – {test.__name__} fails: {reason.strip()[:150]}")


def test_d16_fails_where_buckets_are_copied(monkeypatch, capsys):
    monkeypatch.setattr(machine, "GlooRanks", lambda world: GlooRanks(world, mutations.copies_every_bucket))
    with pytest.raises(AssertionError) as failure:
        machine.test_d16_peak_memory_is_the_residuals_and_two_buckets(monkeypatch)
    with capsys.disabled():
        print(f"\nD16, {mutations.copies_every_bucket.__doc__} – {str(failure.value).splitlines()[0][:150]}")


def test_d18_fails_where_places_are_sent_as_words(monkeypatch, capsys):
    monkeypatch.setattr(wire.Writer, "indices", mutations.indices_as_words)
    with pytest.raises(AssertionError) as failure:
        test_wires.test_d18_a_kept_entry_costs_its_value_and_what_its_place_tells(32 / 4096, "bfloat16", 16, 96)
    with capsys.disabled():
        print(f"\nD18, {mutations.indices_as_words.__doc__} – {str(failure.value).splitlines()[0][:150]}")
