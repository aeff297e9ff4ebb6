"""Files are fetched as a whole or not at all, whatever the server does."""

import hashlib
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.http_server import Server
from howmanygpus.prepare.acquire import downloading
from howmanygpus.prepare.acquire.acquisition import AcquisitionError, Download, acquire_downloads
from howmanygpus.prepare.acquire.downloading import fetch
from howmanygpus.prepare.sources import OptionError

CONTENT = bytes(range(256)) * 400


@pytest.fixture
def server():
    with Server(CONTENT) as server:
        yield server


def get(server, folder, **options) -> Path:
    return fetch(server.download(), folder, **{"pause_s": 0.001, "timeout_s": 120.0, **options})


def refused(server, folder, message, **options) -> None:
    with pytest.raises(AcquisitionError, match=message):
        get(server, folder, **options)
    assert not (folder / "file.tar.gz").exists(), "an incomplete file never has the final name"


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
    is_given_up = threading.Event()

    def stall(handler, start):
        server.send(handler, start, start + 10)
        handler.wfile.flush()
        is_given_up.wait(120.0)

    server.behaviour = stall
    refused(server, tmp_path, "the connection broke off .*timed out.*, 2 times", timeout_s=0.1)
    is_given_up.set()


@pytest.mark.parametrize(
    ("status", "message", "requests"),
    [(404, "has no such file", 1), (403, "requires a login", 1), (401, "requires a login", 1), (503, "503", 6)],
)
def test_a_server_error_is_explained(server, tmp_path, status, message, requests):
    server.behaviour = lambda handler, start: server.send(handler, content=b"no", status=status)
    refused(server, tmp_path, message)
    assert len(server.requests) == requests, "only what may pass is asked for again"


def test_a_login_page_in_place_of_the_file_is_refused(server, tmp_path):
    page = b"<html>Log in</html>"
    server.behaviour = lambda handler, start: server.send(handler, content=page, headers={"Content-Type": "text/html"})
    refused(
        server,
        tmp_path,
        "offers 19 bytes of text/html, not 102400; the file was moved or changed, or requires a login, or "
        "num_bytes is wrong; correct 102400",
    )


def test_a_server_that_sends_more_than_the_file_is_cut_off(server, tmp_path):
    def flood(handler, start):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(CONTENT)

    server.behaviour = flood
    refused(server, tmp_path, "sends more than the file's 102400 bytes; the file was changed, or num_bytes is")
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
    """Return a download with an MD5 but without a size, as the NIH publishes its archives."""
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
            "of text/html.*requires a login",
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
    monkeypatch.setattr(downloading, "MAX_BYTES", 10**5)
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
        (None, None, "folder: None is not given, nor are downloads"),
        ("pets", [ARCHIVE], "folder: 'pets' is given together with downloads"),
        (None, [], "downloads: .* is not a list of archives; write {url: "),
        (None, "https://images.example/pets.zip", "downloads: .* is not a list of archives"),
        (None, ["https://images.example/pets.zip"], "downloads: .* is not an archive; write"),
        (None, [{"url": ARCHIVE["url"], "num_bytes": 1}], "has the keys url, num_bytes; write .* or md5"),
        (None, [ARCHIVE | {"md5": "1b" * 16}], "has the keys url, sha256, num_bytes, md5"),
        (None, [ARCHIVE | {"name": "x"}], "has the keys"),
        (
            None,
            [ARCHIVE | {"sha256": "0a"}],
            "downloads: '0a' is not a sha256; write its 64 hexadecimal digits",
        ),
        (None, [ARCHIVE | {"url": "file:///etc/passwd"}], "downloads: 'file:///etc/passwd' is not an address"),
        (None, [ARCHIVE | {"url": "https:///pets.zip"}], "is not an address"),
        (None, [ARCHIVE | {"url": 7}], "is not an address"),
        (None, [ARCHIVE | {"num_bytes": "1 GB"}], "'1 GB' is not the size of a file; write the number of its bytes"),
        (None, [ARCHIVE | {"num_bytes": 0}], "0 is not the size"),
    ],
)
def test_archives_that_cannot_be_are_refused(folder, downloads, message):
    with pytest.raises(OptionError, match=message):
        acquire_downloads(folder, downloads)


def test_no_server_at_all(server, tmp_path):
    server.stop()
    refused(server, tmp_path, "the connection broke off .*, 6 times")
