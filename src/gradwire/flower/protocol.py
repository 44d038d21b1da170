"""What the two sides call things: record names, keys, types. docs/flower.md describes the exchange."""

from typing import Final

__all__ = ["BUNDLE", "RECORD", "Down", "Up"]

RECORD: Final = "gradwire"
"""The ConfigRecord that goes with each message, in both directions; the app never sees it."""

BUNDLE: Final = "gradwire/1"
"""The ``stype`` of an Array that holds a bundle."""


class Down:
    """Keys of the record that the server sends."""

    SESSION: Final = "session"
    """int: which strategy object speaks; versions and tickets of another one mean nothing."""
    VERSION: Final = "version"
    """int: the version of the reference that the app is to work on."""
    ACCEPTED: Final = "accepted"
    """int: the ticket of the last update of this client that went into the model, 0 for none."""
    TICKET: Final = "ticket"
    """int: the number of this request for an update; training only."""
    UPLINK: Final = "uplink"
    """str: the codec for this client's updates in text form, empty to leave it to the client."""
    ARRAYS: Final = "arrays"
    """str: the name of the ArrayRecord that holds the bundles."""


class Up:
    """Keys of the record that a client sends."""

    SESSION: Final = "session"
    VERSION: Final = "version"
    """int: the version that the client now holds, 0 for none."""
    TICKET: Final = "ticket"
    """int: the request that this update answers; training only."""
    REFUSED: Final = "refused"
    """str: why there is no answer; the server says it in its log."""
