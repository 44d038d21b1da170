"""Floor 3: bytes. Writer and reader of the primitive types, and the frame around a payload."""

from gradwire.wire.frame import HEADER_BYTES_MAX, Frame, open_frame, seal_frame
from gradwire.wire.reader import Reader
from gradwire.wire.writer import Writer

__all__ = ["HEADER_BYTES_MAX", "Frame", "Reader", "Writer", "open_frame", "seal_frame"]
