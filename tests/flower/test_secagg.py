"""F12: additive integers through Flower's own SecAgg+: its workflow, its mod, its masks, a client that drops out."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import bytes_to_ndarray, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

from gradwire.experiments.federated.in_process import InProcessGrid
from gradwire.flower import AdditiveIntegers

N = 5000
NODES = (11, 12, 13, 14, 15)
CODE = AdditiveIntegers.fitted(largest=5.0, clients=len(NODES), bits=16, share=0.1)


def goal(node):
    return np.random.default_rng(node).standard_normal(N).astype(np.float32)


class Client(NumPyClient):
    """Moves the model to a target of its own, and sends the move as integers."""

    def __init__(self, node):
        self.node = node

    def fit(self, parameters, config):
        move = goal(self.node) - parameters[0]
        integers = CODE.encode(move, seed=config["round"], rng=self.node).view(np.int16)
        return [integers.astype(np.float64)], 1, {}  # one example: SecAgg+ multiplies by the weight over max_weight


class Strategy(FedAvg):
    """FedAvg of the older API, whose "parameters" are the mean of the integers."""

    def __init__(self):
        every = {"min_fit_clients": len(NODES), "min_available_clients": len(NODES), "fraction_evaluate": 0.0}
        super().__init__(
            **every,
            initial_parameters=ndarrays_to_parameters([np.zeros(N, np.float32)]),
            on_fit_config_fn=lambda number: {"round": number},
        )
        self.models = [np.zeros(N, np.float32)]
        self.clients = []

    def aggregate_fit(self, server_round, results, failures):
        [mean] = parameters_to_ndarrays(results[0][1].parameters)
        total = np.rint(mean * len(results)).astype(np.int64).astype(np.uint16)
        self.clients.append(len(results))
        self.models.append(self.models[-1] + CODE.mean(total, len(results), N, server_round))
        return ndarrays_to_parameters([self.models[-1]]), {}


def run(lost=()):
    """Two rounds; the strategy, and for each masked vector that reached the server its round, node and integers.

    The nodes of ``lost`` answer all but the second round's request for a masked vector.
    """
    masked = []

    def fate(reply):
        told = reply.content.config_records[RECORD_KEY_CONFIGS]
        if Key.MASKED_PARAMETERS not in told:
            return reply
        number, node = int(reply.metadata.group_id), reply.metadata.src_node_id
        if number == 2 and node in lost:
            return None
        masked.append((number, node, [bytes_to_ndarray(b) for b in told[Key.MASKED_PARAMETERS]]))
        return reply

    app = ClientApp(client_fn=lambda context: Client(context.node_id).to_client(), mods=[secaggplus_mod])
    grid = InProcessGrid(app, NODES, fate)
    strategy = Strategy()
    context = LegacyContext(Context(1, 1, {}, RecordDict(), {}), ServerConfig(num_rounds=2), strategy)
    workflow = SecAggPlusWorkflow(
        num_shares=len(NODES),
        reconstruction_threshold=3,
        max_weight=1.0,
        clipping_range=float(CODE.levels),  # with both ranges ours, SecAgg+'s own quantiser is the identity
        quantization_range=2 * CODE.levels,
    )
    DefaultWorkflow(fit_workflow=workflow)(grid, context)
    return strategy, masked


def plain(model, nodes, number):
    """The mean move of some clients, from integers that nobody masked."""
    total = sum((CODE.encode(goal(n) - model, number, n) for n in nodes), start=np.uint16(0))
    return CODE.mean(total, len(nodes), N, number)


@pytest.mark.parametrize("lost", [(), (13,)])
def test_f12_secagg_sums_our_integers_exactly(lost):
    strategy, masked = run(lost)
    there = [n for n in NODES if n not in lost]
    assert strategy.clients == [len(NODES), len(there)]
    expected = strategy.models[0] + plain(strategy.models[0], NODES, 1)
    np.testing.assert_array_equal(strategy.models[1], expected)
    np.testing.assert_array_equal(strategy.models[2], expected + plain(expected, there, 2))
    assert len(masked) == len(NODES) + len(there)


def test_f12_what_the_server_sees_is_masked_and_costs_a_tenth():
    strategy, masked = run()
    for number, node, (_, integers) in masked:
        model = strategy.models[number - 1]
        sent = CODE.encode(goal(node) - model, number, node).view(np.int16).astype(np.int64) + CODE.levels
        assert integers.shape == sent.shape == (N // 10,)
        assert np.mean(integers == sent) < 0.01, "a masked vector shows nothing"
        # 8 bytes an integer, as SecAgg+ sends them: a tenth of what it needs for all parameters.
        assert integers.nbytes == 8 * N // 10
