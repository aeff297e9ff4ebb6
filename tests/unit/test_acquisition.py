"""Files are fetched and extracted whole or not at all, whatever the server and the archive do."""

import gzip
import hashlib
import io
import stat
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from benchreport.datasets import OptionError
from benchreport.preparation import downloading, extracting
from benchreport.preparation.acquisition import AcquisitionError, Download, acquire_downloads
from benchreport.preparation.downloading import fetch
from benchreport.preparation.extracting import extract_all
from servers import Server

CONTENT = bytes(range(256)) * 400
MOST_BYTES = 10**6


@pytest.fixture
def server():
    with Server(CONTENT) as server:
        yield server


def get(server, folder, **options) -> Path:
    return fetch(server.download(), folder, **{"pause_s": 0.001, "timeout_s": 5.0, **options})


def refused(server, folder, message, **options) -> None:
    with pytest.raises(AcquisitionError, match=message):
        get(server, folder, **options)
    assert not (folder / "file.tar.gz").exists(), "nothing half-written bears the file's name"


def test_a_file_is_fetched_once(server, tmp_path):
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert get(server, tmp_path) == tmp_path / "file.tar.gz"
    assert server.requests == [None]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".file.tar.gz.lock", "file.tar.gz"]


def test_a_file_that_was_changed_here_is_fetched_again(server, tmp_path):
    get(server, tmp_path).write_bytes(CONTENT[:-1] + b"x")
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_download_that_breaks_off_goes_on_where_it_was(server, tmp_path):
    breaks = iter([1000, 50_000, None])
    server.behaviour = lambda handler, start: server.send(handler, start, next(breaks))
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=1000-", "bytes=50000-"]


def test_a_call_goes_on_where_the_last_one_was_interrupted(server, tmp_path):
    server.behaviour = lambda handler, start: server.send(handler, start, start + 7 if start else 1000)
    refused(server, tmp_path, "the connection .*, 6 times")
    server.behaviour = lambda handler, start: server.send(handler, start)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1] == "bytes=1035-"


def test_a_server_without_ranges_starts_over(server, tmp_path):
    stops = iter([1000, None])
    server.behaviour = lambda handler, start: server.send(handler, 0, next(stops), status=200)
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_server_that_sends_another_part_starts_over(server, tmp_path):
    stops = iter([1000, None, None])
    wrong = {"Content-Range": f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}"}

    def answer(handler, start):
        stop = next(stops)
        server.send(handler, start, stop, headers=wrong if start else {})

    server.behaviour = answer
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=1000-", None]


def test_a_server_that_always_breaks_off_is_given_up(server, tmp_path):
    server.behaviour = lambda handler, start: server.send(handler, start, start)
    refused(server, tmp_path, "the connection .*, 6 times")
    assert len(server.requests) == downloading.ATTEMPTS


def test_a_server_that_stalls_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloading, "ATTEMPTS", 2)

    def stall(handler, start):
        server.send(handler, start, start + 10)
        handler.wfile.flush()
        time.sleep(1.0)

    server.behaviour = stall
    refused(server, tmp_path, "the connection broke off .*timed out.*, 2 times", timeout_s=0.1)


@pytest.mark.parametrize(
    ("status", "message", "requests"),
    [(404, "no longer has it there", 1), (403, "wants a login", 1), (401, "wants a login", 1), (503, "503", 6)],
)
def test_an_error_of_the_server_says_what_it_means(server, tmp_path, status, message, requests):
    server.behaviour = lambda handler, start: server.send(handler, content=b"no", status=status)
    refused(server, tmp_path, message)
    assert len(server.requests) == requests, "only what may pass is asked for again"


def test_a_login_page_in_place_of_the_file_is_refused(server, tmp_path):
    page = b"<html>Log in</html>"
    server.behaviour = lambda handler, start: server.send(handler, content=page, headers={"Content-Type": "text/html"})
    refused(
        server, tmp_path, "offers 19 bytes of text/html, not 102400; the file has moved, was changed, or wants a login"
    )


def test_a_server_that_sends_more_than_the_file_is_cut_off(server, tmp_path):
    def flood(handler, start):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(CONTENT)

    server.behaviour = flood
    refused(server, tmp_path, "sends more than the file's 102400 bytes")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_a_wrong_checksum_is_refused_and_nothing_kept(server, tmp_path):
    wrong = b"x" + CONTENT[1:]
    server.behaviour = lambda handler, start: server.send(handler, start, content=wrong)
    refused(server, tmp_path, "the checksum is sha256:[0-9a-f]{64}, not the published sha256:")
    assert [path.name for path in tmp_path.iterdir()] == [".file.tar.gz.lock"]


def test_a_part_of_another_file_is_thrown_away(server, tmp_path):
    (tmp_path / ".file.tar.gz.part").write_bytes(b"x" * 1000)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-", None]


@pytest.fixture
def unsized(server) -> Download:
    """As the NIH publishes its archives: with MD5, without their sizes."""
    return replace(server.download(), checksum=f"md5:{hashlib.md5(CONTENT).hexdigest()}", num_bytes=None)


def test_a_file_of_unpublished_size_is_resumed_too(server, unsized, tmp_path):
    breaks = iter([1000, 50_000, None])
    server.behaviour = lambda handler, start: server.send(handler, start, next(breaks))
    assert fetch(unsized, tmp_path, pause_s=0.001).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=1000-", "bytes=50000-"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"content": b"x" + CONTENT}, "the checksum is md5:[0-9a-f]{32}, not the published md5:"),
        (
            {"content": b"<html>", "headers": {"Content-Type": "text/html; charset=utf-8"}},
            "of text/html.*wants a login",
        ),
        ({"stop": 1000, "length": 1000}, "the checksum is md5:"),
    ],
)
def test_a_file_of_unpublished_size_is_checked(server, unsized, tmp_path, answer, message):
    server.behaviour = lambda handler, start: server.send(handler, start, **answer)
    with pytest.raises(AcquisitionError, match=message):
        fetch(unsized, tmp_path, pause_s=0.001)
    assert [path.name for path in tmp_path.iterdir()] == [".file.tar.gz.lock"]


def test_a_file_of_unpublished_size_has_a_bound(server, unsized, tmp_path, monkeypatch):
    monkeypatch.setattr(downloading, "MOST_BYTES", 10**5)
    with pytest.raises(AcquisitionError, match="sends more than the file's 100000 bytes"):
        fetch(unsized, tmp_path)


def test_two_that_want_a_file_fetch_it_once(server, tmp_path):
    def answer_slowly(handler, start):
        time.sleep(0.3)
        server.send(handler, start)

    server.behaviour = answer_slowly
    threads = [threading.Thread(target=get, args=(server, tmp_path)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.requests == [None] and (tmp_path / "file.tar.gz").read_bytes() == CONTENT


ARCHIVE = {"url": "https://images.example/pets.zip", "sha256": "0A" * 32, "num_bytes": 1000}


def test_the_archives_of_a_user_are_read():
    other = {"url": "http://images.example/get?id=1", "md5": "1b" * 16, "num_bytes": 24}
    acquisition = acquire_downloads(None, [ARCHIVE, other])
    assert acquisition.downloads == (
        Download("https://images.example/pets.zip", f"sha256:{'0a' * 32}", 1000),
        Download("http://images.example/get?id=1", f"md5:{'1b' * 16}", 24),
    )
    assert acquisition.most_bytes == 10_240
    assert [(download.folder, download.name) for download in acquisition.downloads] == [
        *(("0a" * 6, "pets.zip"), ("1b" * 6, "get")),
    ]
    assert acquire_downloads("pets", None) is None


@pytest.mark.parametrize(
    ("folder", "downloads", "message"),
    [
        (None, None, "folder: None is not named, nor are downloads"),
        ("pets", [ARCHIVE], "folder: 'pets' is named beside downloads"),
        (None, [], "downloads: .* is no list of archives; write {url: "),
        (None, "https://images.example/pets.zip", "downloads: .* is no list of archives"),
        (None, ["https://images.example/pets.zip"], "downloads: .* is no archive; write"),
        (None, [{"url": ARCHIVE["url"], "num_bytes": 1}], "has the keys url, num_bytes; write .* or md5"),
        (None, [ARCHIVE | {"md5": "1b" * 16}], "has the keys url, sha256, num_bytes, md5"),
        (None, [ARCHIVE | {"name": "x"}], "has the keys"),
        (None, [ARCHIVE | {"sha256": "0a"}], "downloads: '0a' is no sha256; write its 64 hexadecimal digits"),
        (None, [ARCHIVE | {"url": "file:///etc/passwd"}], "downloads: 'file:///etc/passwd' is no address"),
        (None, [ARCHIVE | {"url": "https:///pets.zip"}], "is no address"),
        (None, [ARCHIVE | {"url": 7}], "is no address"),
        (None, [ARCHIVE | {"num_bytes": "1 GB"}], "'1 GB' is no size of a file; write the number of its bytes"),
        (None, [ARCHIVE | {"num_bytes": 0}], "0 is no size"),
    ],
)
def test_archives_that_cannot_be_are_refused(folder, downloads, message):
    with pytest.raises(OptionError, match=message):
        acquire_downloads(folder, downloads)


def test_no_server_at_all(server, tmp_path):
    server.stop()
    refused(server, tmp_path, "the connection broke off .*, 6 times")


def tar_of(*members, kind="gz", path: Path) -> Path:
    """members: (name, content) of files, or a TarInfo."""
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
    assert extract_all([archive], tmp_path / "out", MOST_BYTES) == (2, 3)
    assert (tmp_path / "out/images/a.png").read_bytes() == b"one" and (tmp_path / "out/b.txt").read_bytes() == b""


@pytest.mark.parametrize("kind", ["", "gz", "xz", "bz2", "zip"])
def test_an_archive_is_known_by_its_content(tmp_path, kind):
    member, path = ("a.png", b"one"), tmp_path / "get"
    archive = zip_of(member, path=path) if kind == "zip" else tar_of(member, kind=kind, path=path)
    assert extract_all([archive], tmp_path / "out", MOST_BYTES) == (1, 3)


def test_several_archives_make_one_folder_in_the_place_of_an_older(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.png").touch()
    one = tar_of(("images/a.png", b"one"), path=tmp_path / "1.tar.gz")
    two = zip_of(("images/", b""), ("images/b.png", b"two"), path=tmp_path / "2.zip")
    assert extract_all([one, two], tmp_path / "out", MOST_BYTES) == (2, 6)
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


def refuse_archive(archive: Path, message: str, most_bytes: int = MOST_BYTES) -> None:
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


def test_bombs_are_refused(tmp_path):
    zeros = bytes(20 * 2**20)
    refuse_archive(tar_of(("zeros", zeros), path=tmp_path / "x.tar.gz"), "it holds more than 1000000 bytes")
    refuse_archive(zip_of(("zeros", zeros), path=tmp_path / "x.zip"), "it holds more than 1000000 bytes")
    many = [(f"{index}", zeros[:200_000]) for index in range(6)]
    refuse_archive(tar_of(*many, path=tmp_path / "y.tar.xz", kind="xz"), "it holds more than 1000000 bytes")


def test_a_flood_of_folders_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(extracting, "MOST_MEMBERS", 50)
    folders = [special(f"folder{index}", tarfile.DIRTYPE) for index in range(51)]
    refuse_archive(tar_of(*folders, path=tmp_path / "x.tar.gz"), "it holds more than 50 files and folders")


def test_a_header_that_is_a_bomb_is_refused_before_it_is_read(tmp_path):
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 8 * 2**20
    content = header.tobuf() + bytes(header.size)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(content))
    refuse_archive(tmp_path / "x.tar.gz", "one of its headers is 8388608 bytes long")


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar", "x.tar.xz", "x.zip", "x.rar"])
def test_what_is_no_archive_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"<html>Not Found</html>" * 50)
    refuse_archive(tmp_path / name, "it cannot be extracted .*; known are zip, and tar")


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_an_archive_that_is_cut_is_refused(tmp_path, kind):
    random = hashlib.sha256(b"1").digest() * 3000
    archive = tar_of(("a", random[:50_000]), ("b", random), path=tmp_path / f"x.tar.{kind}", kind=kind)
    archive.write_bytes(archive.read_bytes()[:-60])
    refuse_archive(archive, "it cannot be extracted")
