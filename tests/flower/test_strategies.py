"""The strategy inside is called unchanged: FedAvg, FedAdam, FedProx, and both wrappers for differential privacy."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvgM,
    FedMedian,
    FedProx,
)

import gradwire.flower
from flower.apps import arrays_of, client_app, compressed, fed_avg, federate, model, pull, record
from gradwire.errors import InputError, ParameterError
from gradwire.experiments.federated.in_process import InProcessGrid

FEW = {"min_train_nodes": 1, "min_evaluate_nodes": 1, "min_available_nodes": 1}

INNER = {
    "FedAvg": lambda: fed_avg(),
    "FedAdam": lambda: FedAdam(**FEW, eta=0.1, beta_1=0.9, beta_2=0.99),
    "FedAvgM": lambda: FedAvgM(**FEW, server_learning_rate=0.9, server_momentum=0.5),
    "FedProx": lambda: FedProx(**FEW, proximal_mu=0.1),
    "FedMedian": lambda: FedMedian(**FEW),
}


def floats(arrays):
    return {name: a for name, a in arrays.items() if a.dtype.kind == "f" and a.size}


@pytest.mark.parametrize("name", INNER)
def test_without_loss_the_result_is_the_plain_strategys(name):
    initial = floats(model())
    app = client_app(gradwire.flower.compress(), train=lambda a, n: floats(pull({**model(), **a}, n)))
    plain, _ = federate(INNER[name](), app, initial=initial)
    wrapped, _ = federate(compressed(INNER[name](), uplink="identity"), app, initial=initial)
    for key, array in arrays_of(plain.arrays).items():
        np.testing.assert_allclose(wrapped.arrays[key].numpy(), array, rtol=2e-5, atol=2e-5)
    assert {r: m["loss"] for r, m in plain.evaluate_metrics_clientapp.items()} == pytest.approx(
        {r: m["loss"] for r, m in wrapped.evaluate_metrics_clientapp.items()}, rel=1e-3
    )


@pytest.mark.parametrize("name", INNER)
def test_with_compression_it_comes_close(name):
    def step(arrays, node):
        goal = model(seed=node)
        return {n: a + np.float32(0.1) * (goal[n] - a) if a.dtype.kind == "f" else a for n, a in arrays.items()}

    app = client_app(gradwire.flower.compress(), train=step)
    strategy = compressed(INNER[name](), uplink="rtopk:k=0.2,r=0.4", downlink="sd:alpha=0.1")
    loss = [m["loss"] for m in federate(strategy, app, rounds=40)[0].evaluate_metrics_clientapp.values()]
    plain = [
        m["loss"]
        for m in federate(INNER[name](), client_app(train=step), rounds=40)[0].evaluate_metrics_clientapp.values()
    ]
    assert loss[-1] < 0.6 * loss[0]
    assert loss[-1] < plain[-1] + 0.1 * (plain[0] - plain[-1])


def test_fedprox_config_reaches_the_app():
    seen = []
    app = ClientApp(mods=[gradwire.flower.compress("topk:k=0.1")])

    @app.train()
    def _train(message, context):
        seen.append((set(message.content), message.content["config"]["proximal-mu"]))
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": message.content["arrays"], "m": metrics}), reply_to=message)

    federate(compressed(FedProx(**FEW, fraction_evaluate=0.0, proximal_mu=0.25)), app, rounds=1)
    assert seen == [({"arrays", "config"}, 0.25)] * 3, "the app sees its own records, and no other"


def distance(arrays, reference):
    return np.sqrt(sum(((a.astype(float) - reference[k].astype(float)) ** 2).sum() for k, a in arrays.items()))


@pytest.mark.parametrize("side", ["server", "client"])
def test_differential_privacy_wrappers_bound_the_update(side):
    """Without noise, the model moves in a round by no more than the clipping norm, error feedback or not."""
    norm, moved = 0.7, []

    def keep(server_round, arrays):
        moved.append(arrays_of(arrays))

    initial = {k: a for k, a in model().items() if a.dtype.kind == "f"}
    train = lambda a, n: {k: v for k, v in pull({**model(), **a}, n).items() if k in initial}  # noqa: E731
    if side == "server":
        inner = DifferentialPrivacyServerSideFixedClipping(fed_avg(), 0.0, norm, 3)
        app = client_app(gradwire.flower.compress(), train=train)
    else:
        inner = DifferentialPrivacyClientSideFixedClipping(fed_avg(), 0.0, norm, 3)
        app = client_app(gradwire.flower.compress(), fixedclipping_mod, train=train)
    strategy = compressed(inner, uplink="topk:k=0.1")
    strategy.start(InProcessGrid(app, [11, 12, 13]), record(initial), num_rounds=6, evaluate_fn=keep)
    steps = [distance(b, a) for a, b in pairwise(moved)]
    assert len(steps) == 6
    assert all(0.1 * norm < step <= norm * (1 + 1e-4) for step in steps)


@pytest.mark.parametrize("side", ["server", "client"])
def test_differential_privacy_with_noise_and_integer_buffers(side):
    wrapper, mods = {
        "server": (DifferentialPrivacyServerSideFixedClipping, []),
        "client": (DifferentialPrivacyClientSideFixedClipping, []),
    }[side]
    strategy = compressed(wrapper(fed_avg(), 0.01, 5.0, 3), uplink="rtopk:k=0.1,r=0.3", downlink="sd:alpha=0.2")
    result, _ = federate(strategy, client_app(gradwire.flower.compress(), *mods))
    assert all(np.isfinite(a.astype(float)).all() for a in arrays_of(result.arrays).values())
    assert result.arrays["ids"].numpy().dtype == np.int64


def test_f9_a_reply_is_dense_one_tensor_at_a_time():
    """Memory of aggregation does not grow with the clients: FedAvg reads the decoded arrays one by one."""
    big = {f"layer{i}": np.zeros((256, 1024), np.float32) for i in range(8)}  # 8 MiB
    app = ClientApp(mods=[gradwire.flower.compress("topk:k=0.001")])

    @app.train()
    def _train(message, context):
        rng = np.random.default_rng(context.node_id)
        new = {
            k: Array(v.numpy() + rng.standard_normal(v.shape, np.float32)) for k, v in message.content["arrays"].items()
        }
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": ArrayRecord(new), "m": metrics}), reply_to=message)

    def peak(clients):

        strategy = compressed()
        grid = InProcessGrid(app, range(2, 2 + clients))
        replies = list(grid.send_and_receive(strategy.configure_train(1, record(big), ConfigRecord(), grid)))
        grid.contexts.clear()
        tracemalloc.start()
        arrays, _ = strategy.aggregate_train(1, replies)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert arrays is not None
        return used

    few, many = peak(2), peak(12)
    assert many < few + 2**20, "ten more clients cost no more than their compressed updates"
    assert many < 3.5 * 8 * 2**20


def test_f11_buffers_stay_what_they_are():
    result, _ = federate(
        compressed(uplink="topk:k=0.1", downlink="sd:alpha=0.2"), client_app(gradwire.flower.compress())
    )
    found, initial = arrays_of(result.arrays), model()
    assert {k: (a.dtype, a.shape) for k, a in found.items()} == {k: (a.dtype, a.shape) for k, a in initial.items()}
    assert found["norm.num_batches_tracked"] == 7 + 3 * 10
    assert np.array_equal(found["ids"], initial["ids"])
    assert np.array_equal(found["mask"], initial["mask"])
    assert (found["norm.running_var"] >= 0).all(), "a running variance is never compressed"


def test_f11_bfloat16_and_float16_models():
    torch = pytest.importorskip("torch")
    weights = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    state = {"a": weights.bfloat16(), "b": weights.half(), "c": weights[0, :4].bfloat16()}
    app = ClientApp(mods=[gradwire.flower.compress("topk:k=0.5")])
    seen = {}

    @app.train()
    def _train(message, context):
        given = message.content["arrays"].to_torch_state_dict()
        seen.update({k: v.dtype for k, v in given.items()})
        new = {k: (v.float() + 1).to(state[k].dtype) for k, v in given.items()}
        metrics = MetricRecord({"num-examples": 1})
        reply = {"arrays": gradwire.flower.array_record(new), "m": metrics}
        return Message(RecordDict(reply), reply_to=message)

    strategy = compressed(fed_avg(fraction_evaluate=0.0), downlink="sd:alpha=0.01")
    result = strategy.start(InProcessGrid(app, [2, 3]), gradwire.flower.array_record(state), num_rounds=8)
    assert seen == {"a": torch.float32, "b": torch.float16, "c": torch.float32}
    for key, old in state.items():
        moved = torch.from_numpy(result.arrays[key].numpy()).float() - old.float()
        assert abs(float(moved.mean()) - 8) < 2, key


def test_a_model_that_is_not_finite_is_an_error_that_names_the_tensor():
    broken = model()
    broken["fc.weight"][0, 0] = np.inf
    with pytest.raises(InputError, match=r"fc\.weight"):
        federate(compressed(), client_app(gradwire.flower.compress()), initial=broken)


def test_a_downlink_codec_that_would_run_away_is_refused():
    with pytest.raises(ParameterError, match="contractive"):
        federate(compressed(downlink="randomk:k=0.1,scale=true"), client_app(gradwire.flower.compress()))


def test_a_client_without_a_codec_says_so(caplog):
    federate(compressed(), client_app(gradwire.flower.compress()), rounds=1)
    assert "compress(codec" in caplog.text


def test_a_client_without_the_mod_says_so(caplog):
    result, _ = federate(compressed(uplink="topk:k=0.1"), client_app(), rounds=1)
    assert len(result.arrays) == 0
    assert "error" in caplog.text.lower()


def test_the_mod_passes_a_server_without_compression_by():
    plain, _ = federate(fed_avg(), client_app())
    with_mod, _ = federate(fed_avg(), client_app(gradwire.flower.compress("topk:k=0.1")))
    for key, array in arrays_of(plain.arrays).items():
        np.testing.assert_allclose(with_mod.arrays[key].numpy(), array, rtol=1e-6, atol=1e-6)
