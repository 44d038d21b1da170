"""The front door: one clear error for each bad input, and nothing else; inputs of every supported kind."""

import math
import pickle

import numpy as np
import pytest

import gradwire
from gradwire import Identity, InputError, MessageError, ParameterError, RandomK, RTopK, TopK

CODECS = [Identity(), TopK(3), RandomK(3), RTopK(3, 5)]
X = np.arange(10, dtype=np.float32)


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_is_refused_with_its_position(codec, bad):
    x = X.copy()
    x[7] = bad
    with pytest.raises(InputError, match=r"x\[7\] is"):
        gradwire.encode(codec, x, 0)


def test_the_first_of_several_non_finite_is_named():
    x = np.ones(5000, np.float32)
    x[[4321, 4999]] = np.nan, np.inf
    for codec in CODECS:
        with pytest.raises(InputError, match=r"x\[4321\]"):
            gradwire.encode(codec, x, 0)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.float32(1.0) * np.ones((), np.float32), "no dimension"),
        (np.ones((2, 5), np.float32), r"shape \(2, 5\)"),
        (np.arange(10), "dtype int64"),
        (np.ones(10, np.complex64), "dtype complex64"),
        (np.ones(10, ">f4"), "byte order"),
        (np.array([1.0, 1e39]), r"x\[1\] = 1e\+39 is beyond float32"),
        ("text", "numpy array or torch tensor"),
        (None, "numpy array or torch tensor"),
    ],
)
def test_bad_inputs(x, says):
    with pytest.raises(InputError, match=says):
        gradwire.encode(Identity(), x, 0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TopK(0), "k = 0 sends nothing"),
        (lambda: TopK(-1), "k = -1"),
        (lambda: TopK(0.0), "k = 0.0 is no share"),
        (lambda: TopK(1.5), "k = 1.5 is no share"),
        (lambda: TopK(math.nan), "no share"),
        (lambda: TopK(True), "count"),
        (lambda: TopK("3"), "count"),
        (lambda: TopK(3, values="int8"), "values must be one of float32, float16, bfloat16"),
        (lambda: TopK(3, values=TopK(3)), "may stand inside"),
        (lambda: RTopK(5, 3), "r = 3 is less than k = 5"),
        (lambda: RTopK(0.5, 0.3), "r = 0.3 is less than k = 0.5"),
        (lambda: Identity("float64"), "dtype must be one of"),
        (lambda: gradwire.Rng(-1), "seed must lie in"),
        (lambda: gradwire.Rng(2**64), "seed must lie in"),
        (lambda: gradwire.Rng(0.5), "seed must be an integer"),
    ],
)
def test_bad_parameters(make, says):
    with pytest.raises(ParameterError, match=says):
        make()


@pytest.mark.parametrize("codec", [TopK(11), RandomK(11), RTopK(3, 11), RTopK(0.9, 2)], ids=str)
def test_parameters_that_do_not_fit_n(codec):
    with pytest.raises(ParameterError, match=r"11 is more than the vector's 10|r = 2 is less than"):
        gradwire.encode(codec, X, 0)
    with pytest.raises(ParameterError):
        gradwire.encode(codec, X[:0], 0)


def test_the_empty_vector_is_a_vector():
    for codec in (Identity(), TopK(0.1), RandomK(0.1), RTopK(0.1, 0.3)):
        message = gradwire.encode(codec, [], 0)
        assert len(message) == 9
        assert gradwire.decode(message, 0).shape == (0,)
    with pytest.raises(ParameterError, match="more than the vector's 0 entries"):
        gradwire.encode(TopK(1), [], 0)


def test_a_message_for_another_n_is_refused():
    message = gradwire.encode(TopK(3), X, 0)
    for n in (0, 9, 11):
        with pytest.raises(MessageError, match=f"is for 10 entries, but {n} are expected"):
            gradwire.decode(message, n)


def test_damaged_messages():
    message = gradwire.encode(TopK(3), X, 0)
    with pytest.raises(MessageError, match="checksum"):
        gradwire.decode(message[:-1] + b"x", 10)
    with pytest.raises(MessageError, match="not a gradwire message"):
        gradwire.decode(b"PK" + message[2:], 10)
    with pytest.raises(MessageError, match="format version 9"):
        gradwire.decode(message[:2] + b"\x09" + message[3:], 10)
    with pytest.raises(MessageError, match="cut short"):
        gradwire.decode(b"gw", 10)
    with pytest.raises(MessageError):
        gradwire.decode(b"", 10)
    with pytest.raises(MessageError, match="a message is bytes"):
        gradwire.decode("gw", 10)


def test_an_unknown_codec_is_named():
    body = b"gw\x01\xc8\x0a"
    with pytest.raises(MessageError, match="names codec 200"):
        gradwire.decode(body + gradwire.kernels.crc32c(body).to_bytes(4, "little"), 10)


def test_a_message_that_claims_much_allocates_nothing():
    """k of 2^31 in a few bytes: refused from the bytes at hand, with the receiver's n in memory only."""
    for code in (2, 3, 4):
        w = gradwire.wire.Writer()
        w.varint(2**31)
        w.raw(b"\x0b" + bytes(40))
        with pytest.raises(MessageError):
            gradwire.decode(gradwire.wire.seal_frame(code, 10, w), 10)


@pytest.mark.parametrize("weight", [math.nan, math.inf, 1e39])
def test_a_weight_must_be_finite(weight):
    with pytest.raises(InputError, match="weight"):
        gradwire.add(gradwire.encode(Identity(), X, 0), np.zeros(10, np.float32), weight)


@pytest.mark.parametrize(
    "out", [np.zeros(10), np.zeros(20, np.float32)[::2], np.zeros((2, 5), np.float32), [0.0] * 10, np.zeros(10, ">f4")]
)
def test_an_output_that_would_lose_the_sum_is_refused(out):
    with pytest.raises(InputError, match="out"):
        gradwire.add(gradwire.encode(Identity(), X, 0), out)


def test_a_read_only_output_is_refused():
    out = np.zeros(10, np.float32)
    out.flags.writeable = False
    with pytest.raises(InputError, match="writable"):
        gradwire.add(gradwire.encode(Identity(), X, 0), out)


def test_dtypes_and_layouts_give_the_same_message():
    torch = pytest.importorskip("torch")
    x = np.array([0.5, -2.0, 4.0, 1.0, 0.25, 8.0], np.float32)  # exact in every format
    expected = gradwire.encode(TopK(3), x, 0)
    strided = np.zeros(12, np.float32)
    strided[::2] = x
    tensor = torch.from_numpy(x)
    for y in (
        x.astype(np.float64),
        x.astype(np.float16),
        strided[::2],
        x.tolist(),
        tensor,
        tensor.double(),
        tensor.half(),
        tensor.bfloat16(),
        torch.nn.Parameter(tensor),
        torch.from_numpy(strided)[::2],
    ):
        assert gradwire.encode(TopK(3), y, 0) == expected


def test_torch_output_is_changed_in_place():
    torch = pytest.importorskip("torch")
    out = torch.ones(10)
    gradwire.add(memoryview(gradwire.encode(Identity(), X, 0)), out, 0.5)
    assert out.tolist() == (1 + 0.5 * X).tolist()
    message = np.frombuffer(gradwire.encode(Identity(), X, 0), np.uint8)
    assert gradwire.decode(message, 10).tolist() == X.tolist()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nope", "'nope' in 'nope' is no codec"),
        ("topk", "lacks k"),
        ("topk:k", "'k' in 'topk:k' is no field"),
        ("topk:q=1", "its fields are k, values"),
        ("topk:k=1,k=2", "k stands twice"),
        ("topk:k=0", "k = 0"),
        ("topk:k=1,values=identity(dtype=float16", "parentheses"),
        ("topk:k=1,values=topk(k=1)", "may stand inside"),
        ("topk:k=!", "is no value"),
        ("", "no codec"),
    ],
)
def test_bad_specs(spec, says):
    with pytest.raises(ParameterError) as e:
        gradwire.from_spec(spec)
    assert says in str(e.value)


def test_specs_nest_and_come_back():
    codec = gradwire.from_spec("rtopk: k=0.01, r=0.04, values=identity(dtype=bfloat16)")
    assert codec == RTopK(0.01, 0.04, values=Identity("bfloat16"))
    assert gradwire.from_spec(str(codec)) == codec
    assert pickle.loads(pickle.dumps(codec)) == codec


def test_inspect():
    seen = gradwire.inspect(gradwire.encode(RTopK(30, 60, "float16"), np.linspace(-1, 1, 3000), 0))
    assert (seen.codec, seen.n, seen.version) == ("rtopk", 3000, 1)
    assert seen.details["k"] == 30
    assert seen.details["dtype"] == "float16"
    assert seen.ratio == 12000 / seen.bytes
    assert seen.bits_per_coordinate == 8 * seen.bytes / 3000


def test_messages_decode_on_many_threads_at_once():
    from concurrent.futures import ThreadPoolExecutor

    x = np.random.default_rng(0).standard_normal(20000).astype(np.float32)
    with ThreadPoolExecutor(8) as pool:
        messages = list(pool.map(lambda s: gradwire.encode(RTopK(0.1, 0.3), x, s), range(32)))
    assert messages == [gradwire.encode(RTopK(0.1, 0.3), x, s) for s in range(32)]
