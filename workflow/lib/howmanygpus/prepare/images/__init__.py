"""
One image file becomes pixels: its header is looked at first, then a decoder that is right for it reads it.

What cannot be read rightly is refused with one of REASONS; nothing is read in part or by guess.
"""

REASONS = {
    "missing": "the file does not exist",
    "empty": "the file has no bytes",
    "unknown": "the file is no PNG or JPEG image",
    "too_large": "the file or the image is larger than is safe to decode",
    "truncated": "the file ends early",
    "damaged": "the file's checksums or codes are wrong",
    "transparent": "the image has pixels that are not opaque",
    "unsupported": "the image is of a rare kind that no decoder here reads rightly",
    "other_size": "the image has another size than the first of the data set, and none was asked for",
}

LIBRARIES = ("fast", "opencv", "pillow")
"""Which decoder reads plain images; see decoding.py."""
PILLOW_SIMD = "pillow_simd"
"""`pillow`, where Pillow-SIMD takes Pillow's place: an environment of its own. Its filters round more coarsely."""
FILTERS = ("area", "box", "bilinear", "lanczos")
"""How images are resized; see resizing.py."""


class BadImageError(Exception):
    """A file that is not read. `reason` is one of REASONS, `detail` says what was found."""

    def __init__(self, reason: str, detail: str):
        assert reason in REASONS
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail
