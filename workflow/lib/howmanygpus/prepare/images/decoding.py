"""
Decode one image: a plain image by the decoder of the chosen library, any other image by Pillow.

The choice of the library changes no pixel. The checksums of a PNG are compared before or while it is decoded. A JPEG
has no checksums; its codes are decoded strictly, that is, without guesses.
"""

import io
import warnings
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
from PIL import Image, ImageOps

from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.headers import MAX_PIXELS, Header, check_png_sums, read_header

Image.MAX_IMAGE_PIXELS = MAX_PIXELS


def decode(data: bytes, channels: int, library: str = "fast") -> np.ndarray:
    """Decode an image, upright, to uint8 (height, width, channels) with 1 (gray) or 3 (RGB) channels.

    library: one of LIBRARIES. Raises BadImageError.
    """
    header = read_header(data)
    decoder = DECODERS[library] if header.plain else _decode_by_pillow
    return to_channels(decoder(data, header), channels)


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
        return _drop_channel(_strictly(lambda: simplejpeg.decode_jpeg(data, colours)))
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
    _check_codes(data, header)
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise BadImageError("damaged", "OpenCV cannot decode it")
    return pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def _decode_by_pillow(data: bytes, header: Header) -> np.ndarray:
    """Decode by Pillow after a check of checksums and codes, since Pillow ignores wrong ones."""
    _check_codes(data, header)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=[header.format.upper()])
            if image.size != (header.width, header.height):
                raise BadImageError("damaged", "it has a second header with another size")
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return _opaque_pixels(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImageError("damaged", str(error)) from None


def _opaque_pixels(image: Image.Image) -> np.ndarray:
    """Convert an image of any mode to uint8 gray (height, width) or RGB (height, width, 3); refuses transparency."""
    gray = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
    if image.mode.startswith("I"):
        if "transparency" in image.info:
            raise BadImageError("unsupported", "16-bit gray with a transparent level")
        # Levels of 0 to 65535 are scaled to the nearest of 0 to 255. Pillow's own conversion clips them.
        return ((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8)
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("LA" if gray else "RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            raise BadImageError("transparent", "some of its pixels are not opaque")
    return np.asarray(image.convert("L" if gray else "RGB"))


def _check_codes(data: bytes, header: Header) -> None:
    """Raise BadImageError for a PNG with a wrong checksum, or a JPEG that cannot be decoded without guesses."""
    if header.format == "png":
        check_png_sums(data)
    else:
        # At an eighth of the size all codes are read, but few pixels are computed.
        _strictly(lambda: simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, min_factor=8))


def _strictly(decode_jpeg: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        return decode_jpeg()
    except ValueError as error:
        reason = "truncated" if "Premature end of JPEG" in str(error) else "damaged"
        raise BadImageError(reason, str(error)) from None


def _drop_channel(pixels: np.ndarray) -> np.ndarray:
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


DECODERS = {"fast": _decode_fast, "opencv": _decode_by_opencv, "pillow": _decode_by_pillow}
"""Decoders of plain images."""
