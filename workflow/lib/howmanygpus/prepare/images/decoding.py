"""
Decode one image: a plain image by the decoder of the chosen library, any other image by Pillow.

The choice of the library changes no pixel. The checksums of a PNG are compared before or while it is decoded. A JPEG
has no checksums; its codes are decoded strictly, that is, without guesses. libjpeg warns of oddities that change no
pixel as it does of damaged codes, and names only the first. They are rewritten before decoding, so that any warning
means damage.
"""

import io
import re
import struct
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import cv2
import numpy as np
import simplejpeg
from PIL import Image, ImageOps

from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.headers import (
    APP0,
    APP14,
    JPEG_FRAMES,
    MAX_PIXELS,
    PROGRESSIVE,
    START_OF_SCAN,
    Header,
    check_png_sums,
    drop_png_metadata,
    jpeg_segments,
    read_header,
)

Image.MAX_IMAGE_PIXELS = MAX_PIXELS
Levels = tuple[int, int]
FULL = 2**16 - 1
HALF = FULL // 2
"""If no level exceeds this one, it is doubtful that an image uses 16 bits: many have 10, 12 or 14."""


def decode(data: bytes, channels: int, library: str = "fast", levels: Levels | None = None) -> np.ndarray:
    """Decode an image, upright, to uint8 (height, width, channels) with 1 (gray) or 3 (RGB) channels.

    library: one of LIBRARIES. levels: the levels of 16-bit gray that become 0 and 255; None for 0 and 65535, which
    refuses an image without levels above HALF. Raises BadImageError.
    """
    header = read_header(data)
    pixels = DECODERS[library](data, header) if header.plain else _decode_by_pillow(data, header, levels)
    return to_channels(pixels, channels)


def to_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Convert gray (height, width) or RGB (height, width, 3) to (height, width, channels).

    RGB pixels with three equal levels keep that level in gray.
    """
    if pixels.ndim == 2:
        return np.repeat(pixels[..., None], channels, axis=2) if channels > 1 else pixels[..., None]
    if channels == 3:
        return pixels
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None]


def _decode_fast(data: bytes, header: Header) -> np.ndarray:
    """Decode PNG by kornia_rs, which compares the checksums of pixels, and JPEG by simplejpeg, strictly.

    kornia_rs ignores the second checksum, that of the compressed stream, which could only reveal a faulty encoder.
    """
    if header.format == "jpeg":
        colours = "GRAY" if header.kind == "gray" else "RGB"
        return _drop_channel(_decode_strictly(data, header, partial(simplejpeg.decode_jpeg, colorspace=colours))[0])
    from kornia_rs.io import decode_image_png_u8

    check_png_sums(data, trusted=b"IDAT")
    mode = "mono" if header.kind == "gray" else "rgb"
    try:
        pixels = decode_image_png_u8(data, (header.height, header.width), mode)
    except Exception as error:
        raise BadImageError("damaged", str(error)) from None
    return _drop_channel(pixels)


def _decode_by_opencv(data: bytes, header: Header) -> np.ndarray:
    """Decode by OpenCV after a check of checksums and codes, since OpenCV ignores wrong ones."""
    data = _check_codes(data, header)
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise BadImageError("damaged", "OpenCV cannot decode it")
    return pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def _decode_by_pillow(data: bytes, header: Header, levels: Levels | None = None) -> np.ndarray:
    """Decode by Pillow after a check of checksums and codes, since Pillow ignores wrong ones."""
    data = _check_codes(data, header)
    if header.format == "png":
        data = drop_png_metadata(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=[header.format.upper()])
            if image.size != (header.width, header.height):
                raise BadImageError("damaged", "it has a second header with another size")
            image.load()
            # Unreadable EXIF says nothing about the orientation of the image.
            with suppress(SyntaxError, ValueError, TypeError, struct.error):
                ImageOps.exif_transpose(image, in_place=True)
            pixels = _opaque_pixels(image, levels)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImageError("damaged", str(error)) from None
    if header.depth == 16 and header.kind != "gray":
        _check_colours(pixels, levels)
    return pixels


def _opaque_pixels(image: Image.Image, levels: Levels | None) -> np.ndarray:
    """Convert an image of any mode to uint8 gray (height, width) or RGB (height, width, 3); refuses transparency."""
    gray = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
    if image.mode.startswith("I"):
        if "transparency" in image.info:
            raise BadImageError("unsupported", "16-bit gray with a transparent level")
        # Pillow's own conversion clips the levels.
        return _scale(np.asarray(image), levels)
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("LA" if gray else "RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            raise BadImageError("transparent", "some of its pixels are not opaque")
    return np.asarray(image.convert("L" if gray else "RGB"))


def _scale(pixels: np.ndarray, levels: Levels | None) -> np.ndarray:
    """Scale gray levels of 16 bits to the nearest of 0 to 255; those beyond `levels` become 0 or 255."""
    if levels is None and 0 < pixels.max() <= HALF:
        most = (1 << int(pixels.max()).bit_length()) - 1
        problem = f"16-bit gray with levels of at most {pixels.max()}, few of which would remain of 0 to {FULL}"
        raise BadImageError("levels", f"{problem}; set `levels: [0, {most}]`, or [0, {FULL}] if it is dark")
    low, high = levels or (0, FULL)
    width = high - low
    return (((pixels.clip(low, high).astype(np.uint32) - low) * 255 + width // 2) // width).astype(np.uint8)


def _check_colours(pixels: np.ndarray, levels: Levels | None) -> None:
    """Raise BadImageError if colours, or gray with opacity, of 16 bits need other levels than 0 to 65535.

    pixels: as Pillow converts them, by their upper 8 bits.
    """
    if levels not in (None, (0, FULL)) or (levels is None and 0 < pixels.max() <= HALF >> 8):
        raise BadImageError("levels", f"16-bit colours that do not use the levels up to {FULL}; convert it to 8 bits")


def _check_codes(data: bytes, header: Header) -> bytes:
    """Return the file, a JPEG without its oddities. Raises BadImageError for a wrong checksum, or codes to guess."""
    if header.format == "png":
        check_png_sums(data)
        return data
    # At an eighth of the size all codes are read, but few pixels are computed.
    smallest = partial(simplejpeg.decode_jpeg, colorspace="GRAY", min_height=1, min_width=1, min_factor=8)
    return _decode_strictly(data, header, smallest)[1]


def _decode_strictly(
    data: bytes, header: Header, decode_jpeg: Callable[[bytes], np.ndarray]
) -> tuple[np.ndarray, bytes]:
    """Return the pixels of a JPEG, and the file without its oddities. Raises BadImageError for codes to guess."""
    warning = ""
    for change in (lambda data, _: data, lambda data, _: tidy_jpeg(data, header.kind == "cmyk"), drop_padding):
        data = change(data, warning)
        try:
            return decode_jpeg(data), data
        except ValueError as error:
            warning = str(error)
    raise BadImageError("truncated" if "Premature end of JPEG" in warning else "damaged", warning)


def _drop_channel(pixels: np.ndarray) -> np.ndarray:
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


DECODERS = {"fast": _decode_fast, "opencv": _decode_by_opencv, "pillow": _decode_by_pillow}
"""Decoders of plain images."""


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
