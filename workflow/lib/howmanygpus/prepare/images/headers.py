"""Read and check the headers of PNG and JPEG files, without decoding anything."""

import re
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.prepare.images import BadImageError

MAX_PIXELS = 40_000_000
"""Limit on an image: decoded as RGBA and copied once, this many pixels take 320 MB."""
MAX_FILE_BYTES = 8 * MAX_PIXELS
"""Limit on a file: 16 bits for each of four channels, uncompressed."""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_KINDS = {0: "gray", 2: "rgb", 3: "palette", 4: "gray_alpha", 6: "rgba"}
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
PNG_SPECIAL = {b"tRNS", b"eXIf", b"acTL"}
"""Chunks that change the meaning of the pixels: transparency, orientation, animation."""
JPEG_KINDS = {1: "gray", 3: "rgb", 4: "cmyk"}
PROGRESSIVE = 0xC2
JPEG_FRAMES = {0xC0, 0xC1, PROGRESSIVE}
"""Markers of baseline, extended and progressive frames with Huffman codes."""
JPEG_MARKER = re.compile(rb"\xff+[^\x00\xff]")
OTHER_JPEG_FRAMES = {0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
START_OF_SCAN, END_OF_IMAGE, APP0, APP1, APP14 = 0xDA, 0xD9, 0xE0, 0xE1, 0xEE
EXIF_BEGINNINGS = (b"Exif", b"Raw profile type exif\0", b"XML:com.adobe.xmp\0\1")
"""Beginnings of metadata that can contain an orientation: EXIF of JPEG, EXIF of PNG by ImageMagick, compressed XMP."""
XMP_ORIENTATION = b"tiff:Orientation"
PNG_TEXTS = {b"tEXt", b"zTXt", b"iTXt"}
OTHER_KINDS = (
    *(("DICOM", 128, b"DICM"), ("TIFF", 0, b"II*\0"), ("TIFF", 0, b"MM\0*"), ("BMP", 0, b"BM")),
    *(("WebP", 8, b"WEBP"), ("GIF", 0, b"GIF8")),
)
"""Unsupported kinds of images, with the position and the bytes by which they are recognised."""


@dataclass(frozen=True)
class Header:
    """Facts about an image. `plain`: 8-bit gray or RGB without special features, which any decoder reads correctly."""

    format: str
    width: int
    height: int
    kind: str
    depth: int
    plain: bool


def read_file(path: Path) -> bytes:
    """Return all bytes of a file; raises BadImageError if there is none, if it is no plain file, or if it is too large.

    Reading a pipe or a device could wait for ever.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise BadImageError("missing", "there is a folder of this name, and no file")
        if not stat.S_ISREG(status.st_mode):
            raise BadImageError("unreadable", "a pipe, a socket or a device, and no plain file")
        if status.st_size > MAX_FILE_BYTES:
            raise BadImageError("too_large", f"{status.st_size} bytes")
        return path.read_bytes()
    except FileNotFoundError:
        found = f"a link to {path.readlink()}, which does not exist" if path.is_symlink() else "there is no such file"
        raise BadImageError("missing", found) from None
    except OSError as error:
        raise BadImageError("unreadable", error.strerror or str(error)) from None


def read_header(data: bytes) -> Header:
    """Read the header of a file, and check that the file is complete; raises BadImageError."""
    if not data:
        raise BadImageError("empty", "0 bytes")
    if data.startswith(PNG_SIGNATURE):
        return _read_png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _read_jpeg(data)
    if PNG_SIGNATURE.startswith(data[: len(PNG_SIGNATURE)]):
        raise BadImageError("truncated", f"{len(data)} bytes")
    if data.startswith(b"version https://git-lfs"):
        raise BadImageError("unknown", "a pointer of Git LFS in place of the file; fetch it with `git lfs pull`")
    for kind, place, signature in OTHER_KINDS:
        if data.startswith(signature, place):
            raise BadImageError("unknown", f"a {kind} file")
    raise BadImageError("unknown", f"begins with {data[:16]!r}")


def check_png_sums(data: bytes, trusted: bytes = b"") -> None:
    """Raise BadImageError if any chunk, except those of the `trusted` kind, differs from its checksum."""
    view = memoryview(data)
    for kind, start, length in _png_chunks(data):
        end = start + length
        if kind != trusted and zlib.crc32(view[start - 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise BadImageError("damaged", f"the checksum of a chunk {kind.decode()} is wrong")


def drop_png_metadata(data: bytes) -> bytes:
    """Return a PNG file without its colour profile and the texts that contain no orientation.

    No decoder here uses them, and Pillow refuses a file whose texts or profile exceed its own limits.
    """
    kept, position = [], 0
    for kind, start, length in _png_chunks(data):
        if kind == b"iCCP" or (kind in PNG_TEXTS and not _has_orientation(data[start : start + length])):
            kept.append(data[position : start - 8])
            position = start + length + 4
    return b"".join([*kept, data[position:]])


def _png_chunks(data: bytes):
    """Yield kind, start and length of the content of each chunk, up to the last one; raises BadImageError."""
    position, kind = len(PNG_SIGNATURE), b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise BadImageError("truncated", f"ends after {len(data)} bytes, before the last chunk")
        length, kind = struct.unpack_from(">I4s", data, position)
        if not kind.isalpha():
            raise BadImageError("damaged", f"{kind!r} is not the name of a chunk")
        if position + 12 + length > len(data):
            raise BadImageError("truncated", f"ends after {len(data)} bytes, inside a chunk {kind.decode()}")
        yield kind, position + 8, length
        position += 12 + length


def _read_png(data: bytes) -> Header:
    if len(data) < 33:
        raise BadImageError("truncated", f"{len(data)} bytes")
    length, name, width, height, depth, colour, compression, filtering, interlace, checksum = struct.unpack_from(
        ">I4sIIBBBBBI", data, len(PNG_SIGNATURE)
    )
    if (length, name) != (13, b"IHDR") or zlib.crc32(data[12:29]) != checksum:
        raise BadImageError("damaged", "the header is wrong or differs from its checksum")
    if depth not in PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise BadImageError("damaged", "the header does not describe a PNG image")
    _check_size(width, height)
    chunks = list(_png_chunks(data))
    kinds = {kind for kind, _, _ in chunks}
    if b"IDAT" not in kinds:
        raise BadImageError("damaged", "there are no pixels in the file")
    if b"acTL" in kinds:
        raise BadImageError("unsupported", "an animation")
    turned = any(_has_orientation(data[start : start + size]) for kind, start, size in chunks if kind in PNG_TEXTS)
    plain = depth == 8 and colour in (0, 2) and not interlace and not kinds & PNG_SPECIAL and not turned
    return Header("png", width, height, PNG_KINDS[colour], depth, plain)


def _read_jpeg(data: bytes) -> Header:
    frame, special, position = None, False, 2
    for marker, start, length in jpeg_segments(data):
        if marker in OTHER_JPEG_FRAMES:
            raise BadImageError("unsupported", f"a JPEG frame of kind {marker:#x} (lossless, hierarchical, arithmetic)")
        if marker in JPEG_FRAMES:
            if length < 6:
                raise BadImageError("damaged", "the header of the frame is too short")
            frame = struct.unpack_from(">BHHB", data, start)
        special = special or (marker == APP1 and _has_orientation(data[start : start + length]))
        position = start + length
    if frame is None:
        raise BadImageError("damaged", "there is no header of a frame")
    depth, height, width, channels = frame
    if depth != 8 or channels not in JPEG_KINDS or not height or not width:
        raise BadImageError("unsupported", f"a JPEG of {channels} channels, {depth} bits, {width}x{height}")
    _check_size(width, height)
    if data.rfind(b"\xff\xd9") < position:
        raise BadImageError("truncated", f"ends after {len(data)} bytes, without the end of the image")
    return Header("jpeg", width, height, JPEG_KINDS[channels], depth, channels in (1, 3) and not special)


def _has_orientation(note: bytes) -> bool:
    """Whether metadata in a file can contain an orientation: EXIF, or XMP that names it."""
    return note.startswith(EXIF_BEGINNINGS) or XMP_ORIENTATION in note


def jpeg_segments(data: bytes):
    """Yield marker, start and length of the content of each segment up to the first scan; raises BadImageError.

    Bytes between two segments are passed over, as decoders do.
    """
    position, marker = 2, 0
    while marker != START_OF_SCAN:
        marker, start, length = _jpeg_segment(data, position)
        yield marker, start, length
        position = start + length


def _jpeg_segment(data: bytes, position: int) -> tuple[int, int, int]:
    """Return marker, start and length of the content of the first segment from `position` on."""
    found = JPEG_MARKER.search(data, position)
    if not found or found.end() + 2 > len(data):
        raise BadImageError("truncated", f"ends after {len(data)} bytes, before the pixels")
    marker, start = data[found.end() - 1], found.end() + 2
    length = int.from_bytes(data[found.end() : start])
    if length < 2 or marker == END_OF_IMAGE:
        raise BadImageError("damaged", f"a segment is missing at byte {found.start()}")
    if found.end() + length > len(data):
        raise BadImageError("truncated", f"ends after {len(data)} bytes, before the pixels")
    return marker, start, length - 2


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise BadImageError("damaged", f"the header says {width}x{height} pixels")
    if width * height > MAX_PIXELS:
        raise BadImageError("too_large", f"{width}x{height} pixels, more than {MAX_PIXELS:,}")
