"""
Turn one image file into pixels: its header is checked first, then a suitable decoder reads it.

A file that cannot be read correctly is refused with one of REASONS; nothing is read partially or guessed.
"""

REASONS = {
    "missing": "the file does not exist",
    "unreadable": "the file exists and cannot be read, or is no plain file",
    "empty": "the file has no bytes",
    "unknown": "the file is not a PNG or JPEG image",
    "too_large": "the file or the image is larger than is safe to decode",
    "truncated": "the file ends early",
    "damaged": "the file's checksums or codes are wrong",
    "transparent": "the image has pixels that are not opaque",
    "unsupported": "the image is of a rare kind that no decoder here reads correctly",
    "levels": "the levels of a 16-bit image do not fit the option `levels`, or its default",
    "other_size": "the size differs from that of the first image, and the option `size` is not set",
}

LIBRARIES = ("fast", "opencv", "pillow")
"""Decoders of plain images; see decoding.py."""
PILLOW_SIMD = "pillow_simd"
"""`pillow` with Pillow-SIMD instead of Pillow, in an environment of its own. Its filters round more coarsely."""
FILTERS = ("area", "box", "bilinear", "lanczos")
"""Filters for resizing; see resizing.py."""


class BadImageError(Exception):
    """A file is refused. `reason` is one of REASONS, `detail` says what was found."""

    def __init__(self, reason: str, detail: str):
        assert reason in REASONS
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail
