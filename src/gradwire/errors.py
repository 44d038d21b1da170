"""Every error that gradwire raises on purpose; each message says what is wrong and what to do."""

__all__ = ["GradwireError", "InputError", "MessageError", "MissingError", "ParameterError"]


class GradwireError(Exception):
    """Base of all gradwire errors: catch this one to catch them all."""


class ParameterError(GradwireError, ValueError):
    """A codec or function was given a parameter outside its definition."""


class InputError(GradwireError, ValueError):
    """A vector cannot be encoded: not finite, of a foreign dtype, or of the wrong size."""


class MessageError(GradwireError, ValueError):
    """Bytes that are not a valid message, or a message for another vector; nothing was changed."""


class MissingError(GradwireError, RuntimeError):
    """Something optional is needed and not there: an extra, a data set, a tool."""
