"""Archives are extracted as a whole or not at all, whatever is in them."""

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from howmanygpus.prepare.acquire import extracting
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.prepare.acquire.extracting import extract_all

MAX_BYTES = 10**6


def tar_of(*members, kind="gz", path: Path) -> Path:
    """Write a tar archive. Each member is a file's (name, content) or a TarInfo."""
    with tarfile.open(path, f"w:{kind}") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return path


def zip_of(*members, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("kind", ["", "gz", "xz", "bz2"])
def test_a_tar_is_extracted(tmp_path, kind):
    folder = special("./", tarfile.DIRTYPE)
    suffix = f".tar.{kind}" if kind else ".tar"
    archive = tar_of(folder, ("./images/a.png", b"one"), ("b.txt", b""), kind=kind, path=tmp_path / f"data{suffix}")
    assert extract_all([archive], tmp_path / "out", MAX_BYTES) == (2, 3)
    assert (tmp_path / "out/images/a.png").read_bytes() == b"one" and (tmp_path / "out/b.txt").read_bytes() == b""


@pytest.mark.parametrize("kind", ["", "gz", "xz", "bz2", "zip"])
def test_an_archive_is_known_by_its_content(tmp_path, kind):
    member, path = ("a.png", b"one"), tmp_path / "get"
    archive = zip_of(member, path=path) if kind == "zip" else tar_of(member, kind=kind, path=path)
    assert extract_all([archive], tmp_path / "out", MAX_BYTES) == (1, 3)


def test_several_archives_make_one_folder_in_the_place_of_an_older(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.png").touch()
    one = tar_of(("images/a.png", b"one"), path=tmp_path / "1.tar.gz")
    two = zip_of(("images/", b""), ("images/b.png", b"two"), path=tmp_path / "2.zip")
    assert extract_all([one, two], tmp_path / "out", MAX_BYTES) == (2, 6)
    assert sorted(path.name for path in (tmp_path / "out/images").iterdir()) == ["a.png", "b.png"]
    assert not (tmp_path / "out" / "old.png").exists()


ESCAPES = ["../evil", "/tmp/evil", "images/../../evil", "..", "a\\..\\evil"]
SPECIALS = {
    "symlink": special("link", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": special("link", tarfile.LNKTYPE, "../evil"),
    "character device": special("device", tarfile.CHRTYPE),
    "block device": special("device", tarfile.BLKTYPE),
    "pipe": special("pipe", tarfile.FIFOTYPE),
}


def refuse_archive(archive: Path, message: str, most_bytes: int = MAX_BYTES) -> None:
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(AcquisitionError, match=message) as error:
        extract_all([archive], archive.parent / "out", most_bytes)
    assert str(archive) in str(error.value)
    assert sorted(archive.parent.rglob("*")) == before, "nothing is left"
    assert not Path("/tmp/evil").exists() and not (archive.parent.parent / "evil").exists()


@pytest.mark.parametrize("name", ESCAPES)
def test_no_archive_writes_outside_of_its_folder(tmp_path, name):
    refuse_archive(tar_of(("good", b"1"), (name, b"2"), path=tmp_path / "x.tar.gz"), "which is not below its folder")
    refuse_archive(zip_of(("good", b"1"), (name, b"2"), path=tmp_path / "x.zip"), "which is not below its folder")


@pytest.mark.parametrize("what", SPECIALS)
def test_links_and_devices_of_a_tar_are_refused(tmp_path, what):
    archive = tar_of(("good", b"1"), SPECIALS[what], path=tmp_path / "x.tar.gz")
    refuse_archive(archive, "which is no plain file but a link or a device")


def test_links_of_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refuse_archive(zip_of((link, b"/etc/passwd"), path=tmp_path / "x.zip"), "which is a link, a device or encrypted")


def test_a_file_written_through_a_link_or_twice_is_refused(tmp_path):
    archive = tar_of(("a", b"1"), ("a", b"2"), path=tmp_path / "x.tar.gz")
    refuse_archive(archive, "it holds .*a' twice")
    refuse_archive(
        tar_of(("a", b"1"), ("a/b", b"2"), path=tmp_path / "y.tar.gz"), "a file and a folder of one name|twice"
    )
    folder = special("a", tarfile.DIRTYPE)
    refuse_archive(tar_of(("a", b"1"), folder, path=tmp_path / "z.tar.gz"), "a file and a folder of one name")
    refuse_archive(tar_of(folder, ("a", b"1"), path=tmp_path / "w.tar.gz"), "it holds 'a' twice")


def test_bombs_are_refused(tmp_path):
    zeros = bytes(20 * 2**20)
    refuse_archive(tar_of(("zeros", zeros), path=tmp_path / "x.tar.gz"), "it holds more than 1000000 bytes")
    refuse_archive(zip_of(("zeros", zeros), path=tmp_path / "x.zip"), "it holds more than 1000000 bytes")
    many = [(f"{index}", zeros[:200_000]) for index in range(6)]
    refuse_archive(tar_of(*many, path=tmp_path / "y.tar.xz", kind="xz"), "it holds more than 1000000 bytes")


def test_a_flood_of_folders_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(extracting, "MAX_MEMBERS", 50)
    folders = [special(f"folder{index}", tarfile.DIRTYPE) for index in range(51)]
    refuse_archive(tar_of(*folders, path=tmp_path / "x.tar.gz"), "it holds more than 50 files and folders")


def test_a_header_that_is_a_bomb_is_refused_before_it_is_read(tmp_path):
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 8 * 2**20
    content = header.tobuf() + bytes(header.size)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(content))
    refuse_archive(tmp_path / "x.tar.gz", "one of its headers is 8388608 bytes long")


def header_of(kind: bytes, num_bytes: int) -> bytes:
    info = special("member", kind)
    info.size = num_bytes
    return info.tobuf(tarfile.GNU_FORMAT)


def test_a_header_of_negative_length_does_not_read_everything(tmp_path):
    content = header_of(tarfile.XHDTYPE, -1024) + bytes(50 * 2**20)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(content))
    refuse_archive(tmp_path / "x.tar.gz", "one of its headers is -1024 bytes long|it cannot be extracted")


def test_a_file_of_negative_size_is_refused(tmp_path):
    (tmp_path / "x.tar").write_bytes(header_of(tarfile.REGTYPE, -512) + bytes(10 * 512))
    refuse_archive(tmp_path / "x.tar", "the size of 'member' is negative|it cannot be extracted")


def test_a_long_chain_of_headers_is_refused(tmp_path):
    header = header_of(tarfile.XHDTYPE, 512) + b"11 path=ab\n".ljust(512, b"\0")
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(header * 5000))
    refuse_archive(tmp_path / "x.tar.gz", "it cannot be extracted .*recursion")


def test_a_tar_that_goes_on_without_end_is_refused(tmp_path, monkeypatch):
    """Folders add no bytes to the limit on files' sizes, but their headers are decompressed."""
    monkeypatch.setattr(extracting, "HEADER_BYTES", 2**16)
    folder = tar_of(special("folder", tarfile.DIRTYPE), kind="", path=tmp_path / "x").read_bytes()[:512]
    (tmp_path / "x").unlink()
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(folder * 400))
    refuse_archive(tmp_path / "x.tar.gz", "it is longer than all files of the data set", most_bytes=1000)


def test_files_have_the_permissions_of_any_other_whatever_the_archive_says(tmp_path):
    hidden = special("a", tarfile.REGTYPE)
    hidden.mode = 0
    closed = special("folder", tarfile.DIRTYPE)
    closed.mode = 0
    extract_all([tar_of(hidden, closed, path=tmp_path / "x.tar.gz")], tmp_path / "out", MAX_BYTES)
    (tmp_path / "plain").touch()
    (tmp_path / "plain_folder").mkdir()
    for name, like in (("a", "plain"), ("folder", "plain_folder")):
        assert (tmp_path / "out" / name).stat().st_mode == (tmp_path / like).stat().st_mode


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar", "x.tar.xz", "x.zip", "x.rar"])
def test_a_file_that_is_no_archive_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"<html>Not Found</html>" * 50)
    refuse_archive(tmp_path / name, "it cannot be extracted .*; supported are zip, and tar")


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_an_archive_that_is_cut_is_refused(tmp_path, kind):
    random = hashlib.sha256(b"1").digest() * 3000
    archive = tar_of(("a", random[:50_000]), ("b", random), path=tmp_path / f"x.tar.{kind}", kind=kind)
    archive.write_bytes(archive.read_bytes()[:-60])
    refuse_archive(archive, "it cannot be extracted")
