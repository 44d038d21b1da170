"""An accelerator that is none: tensors that claim to be on one, hold their numbers on the host, and are watched.

As on a real one an operation whose tensors are on different devices fails, numpy cannot read a tensor, and a tensor
that is created without a device is on the host. What crosses is counted. Operations whose result may depend on the
device are refused: those that round more than once, in an order or a way of the device's own.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda", 0)

# What may be done to floats: each rounds at most once, and to the nearest, on every device. Sums and products of many,
# fused multiply-adds, powers, roots and the like are not among these.
EXACT = frozenset(
    """_local_scalar_dense _to_copy abs add add_ amax cat clamp clone constant_pad_nd copy_ detach div eq floor gather
    ge gt index index_copy_ index_put_ index_select isinf lt max maximum minimum mul ne neg new_empty new_zeros round
    select slice stack sub unbind unsqueeze view where""".split()  # noqa: SIM905
)

TO_COPY = torch.ops.aten._to_copy.default
SCALAR = torch.ops.aten._local_scalar_dense.default


class OnDevice(torch.Tensor):
    """A tensor that claims to be on DEVICE."""

    @staticmethod
    def __new__(cls, host):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device="meta",  # what torch's own code sees; it would ask a real kind of device for its driver
        )

    def __init__(self, host):
        self.host = host

    @property
    def device(self):
        return DEVICE

    def __repr__(self):
        return f"OnDevice({self.host})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} runs on the device outside a PretendDevice block")


class PretendDevice(TorchDispatchMode):
    """Runs the operations of such tensors, and counts the bytes that cross.

    Attributes:
        down: bytes from the device to the host; single numbers count with their size.
        up: bytes from the host to the device.
        transfers: how often the host waited for the device.
    """

    def __init__(self):
        super().__init__()
        self.down = self.up = self.transfers = 0

    def __enter__(self):
        # Torch starts CUDA as soon as a tensor is created there, before the operation comes to be dispatched.
        self.start, torch.cuda._lazy_init = torch.cuda._lazy_init, lambda: None
        return super().__enter__()

    def __exit__(self, *error):
        torch.cuda._lazy_init = self.start
        return super().__exit__(*error)

    def put(self, tensor):
        """A copy of a host's tensor on the device; not counted."""
        return OnDevice(tensor.clone(memory_format=torch.preserve_format))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        there = [t for t in tensors if isinstance(t, OnDevice)]
        if any(t.is_floating_point() for t in there):
            _check_same_everywhere(func, args, kwargs)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = torch.device("cpu")
        hosts = {id(t.host): t for t in there}
        out = func(*tree_map(_host, args), **tree_map(_host, kwargs))
        if func is SCALAR:
            if there:
                self._crosses_down(there[0].host)
            return out
        target = bool(there) if device is None else torch.device(device).type in (DEVICE.type, "meta")
        if func is TO_COPY and bool(there) != target:
            if target:
                self.up += out.nbytes
            else:
                self._crosses_down(out)
        elif there and (len(there) < len(tensors) or not target):
            raise RuntimeError(f"{func} has tensors on the host and on the device")
        if not target:
            return out
        return tree_map(lambda leaf: _there(leaf, hosts), out)

    def _crosses_down(self, tensor):
        self.down += tensor.nbytes
        self.transfers += 1


def _check_same_everywhere(func, args, kwargs):
    name = func.overloadpacket.__name__
    if name not in EXACT:
        raise RuntimeError(f"{func} of floats: is it rounded alike on every device?")
    if kwargs.get("alpha", 1) != 1:
        raise RuntimeError(f"{func} with alpha: a device may contract the product and the sum")
    if name == "div" and not isinstance(args[1], OnDevice):
        raise RuntimeError("by a number of the host CUDA multiplies with its reciprocal: divide by a tensor")
    if name == "index_put_" and len(args) > 3 and args[3]:
        raise RuntimeError("the order in which floats accumulate is the device's own")


def _there(leaf, known):
    """An operation's result on the device: what it changed in place, or a new tensor."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return known[id(leaf)] if id(leaf) in known else OnDevice(leaf)


def _host(leaf):
    return leaf.host if isinstance(leaf, OnDevice) else leaf
