"""Compressed federated learning in Flower, in both directions: three lines in an app.

>>> import gradwire.flower
>>> from flwr.clientapp import ClientApp
>>> from flwr.serverapp.strategy import FedAvg
>>> client = ClientApp(mods=[gradwire.flower.compress("rtopk:k=0.01,r=0.03")])
>>> strategy = gradwire.flower.Compressed(FedAvg(), downlink="sd:alpha=0.2")
"""

from gradwire.errors import MissingError

try:
    import flwr.serverapp  # noqa: F401
except ImportError as e:
    raise MissingError(f"gradwire.flower needs Flower 1.42 or later ({e}): pip install 'gradwire[flower]'") from None

from gradwire.flower.arrays import array_record
from gradwire.flower.client import compress
from gradwire.flower.meter import Meter, Reading
from gradwire.flower.secure import AdditiveIntegers
from gradwire.flower.strategy import Compressed

__all__ = ["AdditiveIntegers", "Compressed", "Meter", "Reading", "array_record", "compress"]
