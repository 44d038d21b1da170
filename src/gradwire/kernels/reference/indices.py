"""The indices section (docs/wire-format.md, 4.2): gaps of ascending indices, as low bits and quotients."""

import numpy as np
import numpy.typing as npt

from gradwire.errors import InputError, MessageError
from gradwire.kernels.reference.integers import decode_integers, encode_integers, pack_fields, unpack_fields

__all__ = ["decode_indices", "encode_indices"]

Words = npt.NDArray[np.uint32]
Bytes = bytes | bytearray | memoryview

ENTROPY_CODED = 1 << 5  # the mode bit of the first byte


def encode_indices(indices: Words, n: int) -> bytes:
    """The indices section of k different indices below n.

    Definition: section 4.2 of docs/wire-format.md, with the choices pinned there under "the encoder".

    Shapes: indices uint32 (k,), k ≥ 1, strictly ascending, all below n < 2^32.

    Raises:
        InputError: the indices are none, not strictly ascending, or not below n.

    Example:
        >>> encode_indices(np.array([3, 10, 11], np.uint32), 16).hex()
        '020b0d'

    Source: S. W. Golomb, "Run-length encodings", 1966; R. F. Rice, JPL 79-22, 1979.
    """
    if len(indices) == 0 or np.any(indices[1:] <= indices[:-1]) or int(indices[-1]) >= n:
        raise InputError(f"the indices must be at least one, strictly ascending and below n = {n}")
    k = len(indices)
    gaps = indices.astype(np.int64)
    gaps[1:] -= gaps[:-1] + 1
    b = next(b for b in range(32) if k << (16 + b) >= 31536 * n)
    section = _section(gaps, b, 0)
    if k >= 512:
        section = min(section, _section(gaps, max(b - 2, 0), ENTROPY_CODED), key=len)
    return section


def decode_indices(data: Bytes, n: int, k: int) -> tuple[Words, int]:
    """The k indices at the front of data, and the number of bytes that they took.

    Shapes: the indices come as uint32 (k,), strictly ascending below n. What follows them is left alone.

    Raises:
        MessageError: the bytes end too early or are not what section 4.2 of docs/wire-format.md allows.

    Example:
        >>> decode_indices(bytes.fromhex("020b0d"), 16, 3)
        (array([ 3, 10, 11], dtype=uint32), 3)
    """
    if not 1 <= k <= n:
        raise MessageError(f"the message names {k} indices where 1 to n = {n} are possible")
    data = bytes(data)
    if not data or data[0] >= 1 << 6:
        raise MessageError("the message is cut short, or has an unknown mode, at an indices section")
    b, mode = data[0] & 31, data[0] & ENTROPY_CODED
    used = 1 + (b * k + 7) // 8
    if used > len(data):
        raise MessageError("the message is cut short inside an indices section")
    low = unpack_fields(data[1:used], np.full(k, b))
    if mode:
        numbers, more = decode_integers(data[used:], k)
        quotients = [int(q) for q in numbers]
    else:
        quotients, more = _read_unary(data[used:], k)
    # Python's own integers: a hostile quotient times 2^b may pass 2^63.
    indices = []
    index = -1
    for quotient, rest in zip(quotients, low.tolist(), strict=True):
        index += (quotient << b) + rest + 1
        if index >= n:
            raise MessageError(f"the message has an index that is not below n = {n}")
        indices.append(index)
    return np.array(indices, np.uint32), used + more


def _section(gaps: npt.NDArray[np.int64], b: int, mode: int) -> bytes:
    low = pack_fields(gaps & ((1 << b) - 1), np.full(len(gaps), b))
    quotients = gaps >> b
    if mode:
        high = encode_integers(quotients.astype(np.uint32))
    else:
        ends = np.cumsum(quotients + 1)
        bits = np.zeros(int(ends[-1]), np.uint8)
        bits[ends - 1] = 1
        high = np.packbits(bits, bitorder="little").tobytes()
    return bytes([b | mode]) + low + high


def _read_unary(data: bytes, k: int) -> tuple[list[int], int]:
    """k quotients, each as so many zeros and a one; and the bytes they took."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    ends = np.flatnonzero(bits)[:k]
    if len(ends) < k:
        raise MessageError("the message is cut short inside an indices section")
    used = (int(ends[-1]) + 8) // 8
    if bits[ends[-1] + 1 : 8 * used].any():
        raise MessageError("the message has padding bits that are not zero")
    quotients: list[int] = (np.diff(ends, prepend=-1) - 1).tolist()
    return quotients, used
