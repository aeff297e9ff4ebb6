"""Generate small images for tests, both valid and broken ones."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Real sample images beside the checkout; they may be absent."""


def smooth(height: int = 40, width: int = 56, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Return smooth waves, as in photographs, with a little noise: uint8 (height, width) or (height, width, 3)."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [
        np.sin(x / random.uniform(5, 20) + random.uniform(0, 6)) * np.cos(y / random.uniform(5, 20))
        for _ in range(channels)
    ]
    pixels = np.stack(waves, axis=-1) * 100 + 128 + random.normal(0, 2, (height, width, channels))
    return pixels.clip(0, 255).astype(np.uint8).squeeze()


def encode(image: Image.Image | np.ndarray, format: str = "PNG", **options) -> bytes:
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_by_hand(width: int, height: int, colour: int = 0, depth: int = 8, stream: bytes = b"", extra: bytes = b""):
    """Return a PNG with well-formed chunks of any content. stream: the content of IDAT."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", stream) + chunk(b"IEND", b"")


def flip_bit(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :]


def bad_and_unusual(gray: np.ndarray, rgb: np.ndarray) -> dict[str, bytes]:
    """Make broken and unusual files from a gray and a colour image, named as in the sample folder `corrupt`."""
    png, jpeg = encode(gray), encode(rgb, "JPEG", quality=95)
    opaque = np.full_like(gray, 255)
    see_through = opaque.copy()
    see_through[:3] = 0
    exif = Image.Exif()
    exif[0x0112] = 6
    middle = png.index(b"IDAT") + 40
    return {
        "truncated.png": png[: len(png) // 2],
        "truncated.jpg": jpeg[: len(jpeg) // 2],
        "zero_byte.png": b"",
        "header_only.png": png[:33],
        "bitflip_idat.png": flip_bit(png, middle),
        "gray16.png": encode(gray.astype(np.uint16) * 257),
        "gray_alpha.png": encode(Image.merge("LA", [Image.fromarray(gray), Image.fromarray(opaque)])),
        "rgba.png": encode(np.dstack([gray, gray, gray, opaque])),
        "rgba_transparent.png": encode(np.dstack([gray, gray, gray, see_through])),
        "palette.png": encode(Image.fromarray(rgb).quantize(256)),
        "onebit.png": encode(Image.fromarray(gray).convert("1")),
        "cmyk.jpg": encode(Image.fromarray(rgb).convert("CMYK"), "JPEG", quality=95),
        "exif_rotated.jpg": encode(np.rot90(rgb).copy(), "JPEG", quality=95, exif=exif),
        "jpeg_named.png": jpeg,
        "text.png": b"<html><body>404 Not Found</body></html>",
        "lfs_pointer.png": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "bomb_30000x30000.png": png_by_hand(30000, 30000, stream=zlib.compress(bytes(30001 * 30))),
        "bomb_header_100000x100000.png": png_by_hand(100_000, 100_000, stream=b"\0" * 17),
    }


def write_tree(folder: Path, counts: dict[str, int], image: np.ndarray | None = None, suffix: str = ".png") -> None:
    """Write images `split/class/0000.png`; keys of counts are `split/class`. Without `image`, all images differ."""
    for number, (place, count) in enumerate(counts.items()):
        (folder / place).mkdir(parents=True)
        for index in range(count):
            pixels = smooth(seed=100 * number + index) if image is None else image
            (folder / place / f"{index:04d}{suffix}").write_bytes(encode(pixels, "PNG" if suffix == ".png" else "JPEG"))
