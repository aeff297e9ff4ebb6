"""
Rewrite what is unusual in a JPEG file but changes no pixel, so that the file can be decoded without any warning.

libjpeg warns of these oddities as it does of damaged codes, and names only the first. Without them, any warning means
damage.
"""

import re
import struct

from howmanygpus.prepare.images.headers import APP0, APP14, JPEG_FRAMES, PROGRESSIVE, START_OF_SCAN, jpeg_segments

JFIF, ADOBE = b"JFIF\0", b"Adobe"
END = b"\xff\xd9"
TRANSFORM = 11
"""Position of the colour transform in Adobe's segment."""
EXTRANEOUS = re.compile(r"(\d+) extraneous bytes before marker 0xd9")
"""libjpeg's warning of bytes that it found between the codes of the last pixels and the end marker."""


def tidy_jpeg(data: bytes, is_cmyk: bool) -> bytes:
    """Return a file, whose header must be correct, without its oddities.

    They are bytes between segments, an unknown revision of JFIF or colour transform of Adobe, and a scan of a
    sequential image that does not claim all coefficients, although every such scan has them. The values that decoders
    assume are written in their place.
    """
    parts, frame, position = [data[:2]], 0, 2
    for marker, start, length in jpeg_segments(data):
        content = bytearray(data[start : start + length])
        if marker in JPEG_FRAMES:
            frame = marker
        elif marker == APP0 and content.startswith(JFIF) and length > len(JFIF):
            content[len(JFIF)] = 1
        elif marker == APP14 and content.startswith(ADOBE) and length > TRANSFORM:
            if content[TRANSFORM] not in (0, 2 if is_cmyk else 1):
                content[TRANSFORM] = 2 if is_cmyk else 1
        elif marker == START_OF_SCAN and frame != PROGRESSIVE and length > 3:
            content[-3:] = b"\0\x3f\0"
        parts.append(struct.pack(">BBH", 0xFF, marker, length + 2) + content)
        position = start + length
    return b"".join([*parts, data[position:]])


def drop_padding(data: bytes, warning: str) -> bytes:
    """Return a file without padding in front of its end marker: one byte many times, or 0x00 and 0xff.

    warning: libjpeg's, which says how many bytes it has found there. Any other bytes may be codes that a damaged code
    left over, and stay.
    """
    found = EXTRANEOUS.search(warning)
    *_, (_, start, length) = jpeg_segments(data)
    end = data.index(END, start + length)
    padding = data[end - int(found[1]) : end] if found else b""
    is_padding = len(set(padding)) == 1 or set(padding) <= {0, 0xFF}
    return data[: end - len(padding)] + data[end:] if is_padding else data
