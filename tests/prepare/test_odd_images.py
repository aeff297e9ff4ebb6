"""Images as scanners, phones and X-ray machines leave them are read, or refused with a reason."""

import errno
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from howmanygpus.prepare.images import LIBRARIES, BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_file
from pictures import chunk, encode, flip_bit, png_by_hand, smooth

GRAY, RGB = smooth(), smooth(channels=3)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def find_reason(data: bytes, library: str, channels: int = 1) -> str:
    with pytest.raises(BadImageError) as error:
        decode(data, channels, library)
    return error.value.reason


def refuses(data: bytes, library: str) -> bool:
    try:
        decode(data, 3, library)
    except BadImageError:
        return True
    return False


def make_xray(bits: int) -> np.ndarray:
    """Return smooth gray levels of 0 to 2**bits - 1."""
    return (GRAY.astype(np.uint32) * (2**bits - 1) // 255).astype(np.uint16)


@pytest.mark.parametrize("bits", [9, 10, 12, 14, 15])
def test_levels_that_do_not_use_all_16_bits_are_refused_with_the_remedy(bits):
    with pytest.raises(BadImageError, match=rf"levels: .*{make_xray(bits).max()}.*levels: \[0, {2**bits - 1}\]"):
        decode(encode(make_xray(bits)), 1)
    pixels = decode(encode(make_xray(bits)), 1, levels=(0, 2**bits - 1))[..., 0]
    assert np.abs(pixels.astype(int) - GRAY).max() <= 1, "all 256 levels are kept"


def test_a_dark_image_of_16_bits_is_scaled_by_all_of_them_if_asked():
    image = make_xray(12)
    assert decode(encode(image), 1, levels=(0, 65535)).max() == round(image.max() / 257)
    assert decode(encode(np.zeros((8, 8), np.uint16)), 1).max() == 0


def test_levels_beyond_the_given_ones_become_the_lowest_and_the_highest():
    values = np.array([[0, 999, 1000, 1500, 2000, 2001, 65535]], np.uint16)
    assert decode(encode(values), 1, levels=(1000, 2000))[..., 0].tolist() == [[0, 0, 0, 128, 255, 255, 255]]


def make_colours(bits: int) -> bytes:
    rows = b"".join(b"\0" + np.repeat(row, 3).astype(">u2").tobytes() for row in make_xray(bits))
    return png_by_hand(GRAY.shape[1], GRAY.shape[0], colour=2, depth=16, stream=zlib.compress(rows))


def test_colours_of_16_bits_that_do_not_use_all_levels_are_refused():
    assert decode(make_colours(16), 3).max() > 200
    assert find_reason(make_colours(12), "fast", 3) == "levels"
    with pytest.raises(BadImageError, match="8 bits"):
        decode(make_colours(16), 3, levels=(0, 4095))


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def after_first_segment(data: bytes, added: bytes) -> bytes:
    end = 4 + int.from_bytes(data[4:6])
    return data[:end] + added + data[end:]


def change_scan(data: bytes) -> bytes:
    at = data.index(b"\xff\xda")
    end = at + 2 + int.from_bytes(data[at + 2 : at + 4])
    return data[: end - 3] + b"\0\0\0" + data[end:]


def change_revision(data: bytes, revision: bytes) -> bytes:
    at = data.index(b"JFIF\0") + 5
    return data[:at] + revision + data[at + 2 :]


ADOBE = segment(0xEE, b"Adobe\0\x64\0\0\0\0\x09")
ODDITIES = {
    "scan without coefficients": change_scan,
    "revision 0.00": lambda data: change_revision(data, b"\0\0"),
    "revision 2.01": lambda data: change_revision(data, b"\2\1"),
    "zeros before the end": lambda data: data[:-2] + bytes(40) + data[-2:],
    "blanks before the end": lambda data: data[:-2] + b" " * 40 + data[-2:],
    "stuffed bytes before the end": lambda data: data[:-2] + b"\xff\0" * 40 + data[-2:],
    "bytes between segments": lambda data: after_first_segment(data, b"odd\xff\0"),
    "fill bytes between segments": lambda data: after_first_segment(data, b"\xff" * 9),
    "unknown colour transform": lambda data: after_first_segment(data, ADOBE),
    "unknown colour transform alone": lambda data: data[:2] + ADOBE + data[4 + int.from_bytes(data[4:6]) :],
    "several": lambda data: change_revision(change_scan(data), b"\0\0")[:-2] + bytes(50) + data[-2:],
    "zeros before the end, and a thumbnail": lambda data: after_first_segment(
        data[:-2] + bytes(40) + data[-2:], segment(0xE2, encode(GRAY[:8, :8], "JPEG"))
    ),
    "bytes after the end": lambda data: data + b"notes of a camera" + data,
    "damaged EXIF": lambda data: after_first_segment(data, segment(0xE1, b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01")),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("oddity", ODDITIES)
def test_a_jpeg_whose_oddity_changes_no_pixel_is_read(oddity, library):
    for data in (encode(RGB, "JPEG"), encode(GRAY, "JPEG")):
        odd = ODDITIES[oddity](data)
        assert odd != data and np.array_equal(decode(odd, 3, library), decode(data, 3))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("oddity", sorted(set(ODDITIES) - {"scan without coefficients", "several"}))
def test_a_progressive_jpeg_whose_oddity_changes_no_pixel_is_read(oddity, library):
    data = encode(RGB, "JPEG", progressive=True)
    assert np.array_equal(decode(ODDITIES[oddity](data), 3, library), decode(data, 3))


PNG_ODDITIES = {
    "bytes after the end": lambda data: data + b"notes of a camera" + data,
    "damaged EXIF": lambda data: data[:33] + chunk(b"eXIf", b"garbage") + data[33:],
    "significant bits": lambda data: data[:33] + chunk(b"sBIT", b"\x08") + data[33:],
    "a private chunk": lambda data: data[:33] + chunk(b"prVt", b"private") + data[33:],
    "a damaged colour profile": lambda data: data[:33] + chunk(b"iCCP", b"x\0\0no zlib") + data[33:],
    "a damaged text": lambda data: data[:33] + chunk(b"zTXt", b"x\0\0no zlib") + data[33:],
    "a long text": lambda data: data[:33] + chunk(b"zTXt", b"x\0\0" + zlib.compress(bytes(2**21))) + data[33:],
    "a large profile": lambda data: data[:33] + chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(2**21))) + data[33:],
    "texts before the end": lambda data: data[:-12] + 70 * chunk(b"tEXt", b"x\0" + b"y" * 2**20) + data[-12:],
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("oddity", [name for name in PNG_ODDITIES if "EXIF" not in name])
def test_a_png_that_pillow_alone_reads_may_have_them_too(oddity, library):
    opaque = np.dstack([GRAY] * 3 + [np.full_like(GRAY, 255)])
    assert np.array_equal(decode(PNG_ODDITIES[oddity](encode(opaque)), 3, library)[..., 0], GRAY)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("oddity", PNG_ODDITIES)
def test_a_png_whose_oddity_changes_no_pixel_is_read(oddity, library):
    assert np.array_equal(decode(PNG_ODDITIES[oddity](encode(GRAY)), 1, library)[..., 0], GRAY)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_no_damage_of_exif_is_a_traceback(kind):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation], exif[ExifTags.Base.Make] = 6, "a camera"
    random, notes = np.random.default_rng(0), exif.tobytes()
    for _ in range(300):
        damaged = bytearray(notes)
        for position in random.integers(6, len(notes), 3):
            damaged[position] = random.integers(256)
        assert decode(encode(RGB, kind, exif=bytes(damaged)), 3).size == RGB.size


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_oddity_does_not_hide_damage(library):
    data = encode(RGB, "JPEG", quality=95)
    positions = range(data.index(b"\xff\xda") + 14, len(data) - 2, 11)
    damaged = [each for each in (flip_bit(data, position) for position in positions) if refuses(each, library)]
    assert damaged and all(refuses(change_revision(each, b"\0\0"), library) for each in damaged)
    assert refuses(change_revision(data, b"\0\0")[: len(data) * 2 // 3] + b"\xff\xd9", library)


def test_an_unreadable_image_has_a_reason(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "gone.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    (tmp_path / "folder.png").mkdir()
    reasons = {}
    for name in ("pipe", "link", "loop", "folder"):
        with pytest.raises(BadImageError) as error:
            read_file(tmp_path / f"{name}.png")
        reasons[name] = error.value.reason
    assert reasons == {"pipe": "unreadable", "link": "missing", "loop": "unreadable", "folder": "missing"}


def test_a_file_that_the_system_does_not_give_is_unreadable(tmp_path, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    (tmp_path / "a.png").touch()
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(BadImageError, match="unreadable: Input/output error"):
        read_file(tmp_path / "a.png")
