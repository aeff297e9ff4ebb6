"""Every library turns an image file into the correct pixels or into a reason."""

import struct
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image, PngImagePlugin

from howmanygpus.prepare.images import FILTERS, LIBRARIES, REASONS, BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_file
from howmanygpus.prepare.images.resizing import resize
from pictures import SHARED_DATA, bad_and_unusual, chunk, encode, flip_bit, png_by_hand, smooth

GRAY, RGB = smooth(), smooth(channels=3)
GENERATED = bad_and_unusual(GRAY, RGB)
CORRUPT = SHARED_DATA / "corrupt"

REFUSED = {
    "truncated.png": "truncated",
    "truncated.jpg": "truncated",
    "zero_byte.png": "empty",
    "header_only.png": "truncated",
    "bitflip_idat.png": "damaged",
    "rgba_transparent.png": "transparent",
    "text.png": "unknown",
    "lfs_pointer.png": "unknown",
    "bomb_30000x30000.png": "too_large",
    "bomb_header_100000x100000.png": "too_large",
}
SAME_GRAY = ("gray16.png", "gray_alpha.png", "rgba.png")
TOLERANCES = {"palette.png": 8.0, "cmyk.jpg": 3.0, "exif_rotated.jpg": 2.5, "jpeg_named.png": 2.5}
"""Mean difference, in levels, that a palette, the black of CMYK or JPEG causes."""


def find_reason(data: bytes, library: str, channels: int = 1) -> str:
    with pytest.raises(BadImageError) as error:
        decode(data, channels, library)
    return error.value.reason


@pytest.fixture(params=["generated", "shared"])
def corrupt(request) -> dict[str, bytes]:
    """Return the 18 bad and unusual files by name: the generated ones, and the real ones if they are available."""
    if request.param == "generated":
        return GENERATED
    if not CORRUPT.is_dir():
        pytest.skip("the shared sample data are not beside this checkout")
    return {path.name: path.read_bytes() for path in CORRUPT.iterdir() if path.suffix != ".md"}


@pytest.fixture
def sources(corrupt) -> tuple[np.ndarray, np.ndarray]:
    """Return the gray and the colour image from which the files were made."""
    if corrupt is GENERATED:
        return GRAY, RGB
    with Image.open(CORRUPT / "rgba.png") as gray, Image.open(CORRUPT / "jpeg_named.png") as rgb:
        return np.asarray(gray)[..., 0], np.asarray(rgb.convert("RGB"))


def test_generated_samples_match_the_shared_folder():
    if not CORRUPT.is_dir():
        pytest.skip("the shared sample data are not beside this checkout")
    assert {path.name for path in CORRUPT.iterdir()} - {"README.md"} == GENERATED.keys()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_ends_in_its_reason(corrupt, name, library):
    for channels in (1, 3):
        assert find_reason(corrupt[name], library, channels) == REFUSED[name]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", SAME_GRAY)
def test_an_unusual_gray_file_gives_the_pixels_it_was_made_of(corrupt, sources, name, library):
    assert np.array_equal(decode(corrupt[name], 1, library)[..., 0], sources[0])
    assert np.array_equal(decode(corrupt[name], 3, library), np.dstack([sources[0]] * 3))


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_bit_is_black_and_white(corrupt, sources, library):
    pixels = decode(corrupt["onebit.png"], 1, library)[..., 0]
    assert set(np.unique(pixels)) == {0, 255} and pixels.shape == sources[0].shape
    assert abs(float(pixels.mean()) - float(sources[0].mean())) < 3, "dithering keeps the mean"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", TOLERANCES)
def test_an_unusual_colour_file_gives_nearly_the_pixels_it_was_made_of(corrupt, sources, name, library):
    pixels = decode(corrupt[name], 3, library)
    source = sources[1]
    assert pixels.shape == source.shape and pixels.dtype == np.uint8
    if name == "exif_rotated.jpg" and corrupt is not GENERATED:
        source = np.rot90(source, -1)
    difference = np.abs(pixels.astype(int) - source).mean()
    assert difference < TOLERANCES[name]


def test_every_file_has_been_looked_at(corrupt):
    assert REFUSED.keys() | set(SAME_GRAY) | TOLERANCES.keys() | {"onebit.png"} == corrupt.keys()
    assert set(REFUSED.values()) <= REASONS.keys()


SAME_EVERYWHERE = {
    "gray.png": encode(GRAY),
    "rgb.png": encode(RGB),
    "gray.jpg": encode(GRAY, "JPEG"),
    "rgb.jpg": encode(RGB, "JPEG"),
    "progressive.jpg": encode(RGB, "JPEG", progressive=True),
    "stored_as_rgb.jpg": encode(RGB, "JPEG", keep_rgb=True, subsampling=0),
    "gamma.png": png_by_hand(
        *(GRAY.shape[1], GRAY.shape[0]),
        stream=zlib.compress(b"".join(b"\0" + row.tobytes() for row in GRAY)),
        extra=chunk(b"gAMA", struct.pack(">I", 45_455)) + chunk(b"bKGD", b"\0\x80") + chunk(b"pHYs", bytes(9)),
    ),
}


@pytest.mark.parametrize("kind", SAME_EVERYWHERE)
def test_libraries_give_the_same_pixels(kind):
    data = SAME_EVERYWHERE[kind]
    for channels in (1, 3):
        pixels = [decode(data, channels, library) for library in LIBRARIES]
        assert all(np.array_equal(pixels[0], other) for other in pixels[1:])
        assert pixels[0].shape == (*GRAY.shape, channels)


def describe_turn(form: str) -> dict:
    """Return options of Pillow with which a file says that it is to be turned by a quarter, in different ways."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    texts = PngImagePlugin.PngInfo()
    match form:
        case "exif":
            return {"exif": exif}
        case "xmp":
            texts.add_itxt("XML:com.adobe.xmp", xmp)
            return {"xmp": xmp.encode(), "pnginfo": texts}
        case "raw profile":
            texts.add_text(
                "Raw profile type exif", f"\nexif\n{len(exif.tobytes())}\n{exif.tobytes().hex()}\n", zip=True
            )
            return {"pnginfo": texts}
    raise AssertionError(form)


@pytest.mark.parametrize(
    ("kind", "form"),
    [("PNG", "exif"), ("PNG", "xmp"), ("PNG", "raw profile"), ("JPEG", "exif"), ("JPEG", "xmp")],
)
def test_every_library_turns_an_image_upright_that_says_how_it_lies(kind, form):
    upright = np.rot90(decode(encode(RGB, kind), 3), -1)
    for library in LIBRARIES:
        assert np.array_equal(decode(encode(RGB, kind, **describe_turn(form)), 3, library), upright)


@pytest.mark.parametrize("library", LIBRARIES)
def test_pixels_that_are_not_all_there_are_refused_though_all_checksums_are_right(library):
    rows = b"".join(b"\0" + row.tobytes() for row in GRAY)
    height, width = GRAY.shape
    assert np.array_equal(decode(png_by_hand(width, height, stream=zlib.compress(rows)), 1, library)[..., 0], GRAY)
    for stream in (zlib.compress(rows[:500]), zlib.compress(rows)[:200], b"", zlib.compress(b"\x07" + rows[1:])):
        assert find_reason(png_by_hand(width, height, stream=stream), library) == "damaged"


@pytest.mark.parametrize("library", LIBRARIES)
def test_damage_anywhere_in_a_png_is_seen(library):
    data = encode(GRAY)
    wrong = [position for position in range(8, len(data), 7) if not refuses(flip_bit(data, position), library)]
    assert wrong == []


def refuses(data: bytes, library: str) -> bool:
    try:
        decode(data, 1, library)
    except BadImageError:
        return True
    return False


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_cut_anywhere_is_refused(library):
    for data in (encode(GRAY), encode(RGB, "JPEG"), encode(GRAY, "JPEG")):
        kept = [length for length in range(0, len(data), 5) if not refuses(data[:length], library)]
        assert kept == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_damaged_codes_of_a_jpeg_are_refused_by_every_library_alike(library):
    """A JPEG has no checksum, so some damage goes unnoticed, but all libraries notice the same damage."""
    data = encode(RGB, "JPEG", quality=95)
    positions = range(data.index(b"\xff\xda") + 14, len(data) - 2, 11)
    refused = [position for position in positions if refuses(flip_bit(data, position), library)]
    assert refused == [position for position in positions if refuses(flip_bit(data, position), "fast")]
    assert refused


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png_by_hand(40, 40, extra=chunk(b"acTL", bytes(8))), "unsupported"),
        (png_by_hand(0, 40), "damaged"),
        (png_by_hand(40, 40, depth=3), "damaged"),
        (png_by_hand(40, 40, colour=1), "damaged"),
        (b"\x89PN", "truncated"),
        (b"\xff\xd8\xff\xe0", "truncated"),
        (b"\xff\xd8\xff\xc3\0\x0b\x08\0\x10\0\x10\x01\x01\x11\0\xff\xd9", "unsupported"),
        (b"\xff\xd8\xff\xc0\0\x0b\x0c\0\x10\0\x10\x01\x01\x11\0\xff\xda\0\x02\xff\xd9", "unsupported"),
        (b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\x01\x01\x11\0\xff\xda\0\x02\xff\xd9", "too_large"),
        (b"GIF89a" + bytes(30), "unknown"),
    ],
)
def test_rare_kinds_are_refused_before_they_are_decoded(data, reason, library):
    assert find_reason(data, library) == reason


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transparent_level_of_gray_is_refused_where_pixels_have_it(library):
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in GRAY))
    for level, transparent in ((int(GRAY[0, 0]), True), (int(np.setdiff1d(np.arange(256), GRAY)[0]), False)):
        extra = chunk(b"tRNS", struct.pack(">H", level))
        data = png_by_hand(GRAY.shape[1], GRAY.shape[0], stream=rows, extra=extra)
        assert refuses(data, library) == transparent


def test_gray16_is_scaled_to_the_nearest_level():
    values = np.array([[0, 128, 129, 257, 32767, 32768, 65406, 65407, 65535]], np.uint16)
    assert decode(encode(values), 1)[..., 0].tolist() == np.rint(values / 257).astype(int).tolist()


def test_a_missing_and_a_huge_file_are_refused(tmp_path, monkeypatch):
    with pytest.raises(BadImageError, match="missing"):
        read_file(tmp_path / "none.png")
    with pytest.raises(BadImageError, match="missing"):
        read_file(tmp_path)
    monkeypatch.setattr("howmanygpus.prepare.images.headers.MAX_FILE_BYTES", 10)
    (tmp_path / "huge.png").write_bytes(bytes(11))
    with pytest.raises(BadImageError, match="too_large: 11 bytes"):
        read_file(tmp_path / "huge.png")


@pytest.mark.parametrize("filter_name", FILTERS)
def test_shrinking_averages_over_all_pixels(filter_name):
    """Alternating columns of 0 and 255 become gray; a filter that uses few pixels would make stripes of them."""
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 64))[..., None]
    shrunk = resize(stripes, (13, 25), filter_name)
    assert shrunk.shape == (13, 25, 1)
    assert np.abs(shrunk[2:-2, 2:-2].astype(int) - 127.5).max() < 27, "25.1 is what BOX's whole pixels leave"


def test_the_area_filter_is_the_mean_over_areas():
    image = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)
    whole = image.reshape(4, 3, 5, 4, 3).mean(axis=(1, 3))
    assert np.abs(resize(image, (4, 5)) - whole).max() <= 0.51


def test_where_one_side_grows_the_other_is_still_averaged():
    stripes = np.tile(np.array([0, 255], np.uint8), (8, 64))[..., None]
    resized = resize(stripes, (16, 31))
    assert resized.shape == (16, 31, 1) and np.abs(resized.astype(int) - 127.5).max() < 20


@pytest.mark.parametrize("filter_name", FILTERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_the_right_size_is_left_alone(filter_name, channels):
    image = smooth(channels=3)[..., :channels]
    assert resize(image, image.shape[:2], filter_name) is image


@pytest.mark.parametrize("library", LIBRARIES)
def test_interlaced_rows_come_in_their_order(library):
    """Adam7 makes seven passes over an 8x8 image, each with rows of its own."""
    image = np.arange(64, dtype=np.uint8).reshape(8, 8)
    passes = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))
    rows = [b"\0" + row.tobytes() for y, dy, x, dx in passes for row in image[y::dy, x::dx]]
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
    assert np.array_equal(decode(data, 1, library)[..., 0], image)
