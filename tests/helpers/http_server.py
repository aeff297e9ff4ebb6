"""An HTTP server on this host that answers as badly as it is told to."""

import hashlib
import http.server
import re
import threading

from howmanygpus.prepare.acquire.acquisition import Download


class Server:
    """An HTTP server on this host; `behaviour` decides how each request for a file is answered."""

    def __init__(self, content: bytes):
        self.content = content
        self.requests: list[str | None] = []
        self.behaviour = lambda handler, start: self.send(handler, start)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.requests.append(self.headers.get("Range"))
                found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))
                self.close_connection = True
                server.behaviour(self, int(found[1]))

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def send(self, handler, start=0, stop=None, content=None, length=None, status=None, headers=()):
        """Send content[start:stop] and say what `length` says."""
        content = self.content if content is None else content
        status = status or (206 if start else 200)
        handler.send_response(status)
        said = dict(headers) | {"Content-Length": str(len(content) - start if length is None else length)}
        if status == 206:
            said.setdefault("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        for name, value in said.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content[start:stop])

    def download(self) -> Download:
        url = f"http://127.0.0.1:{self.http.server_address[1]}/data/file.tar.gz"
        return Download(url, f"sha256:{hashlib.sha256(self.content).hexdigest()}", len(self.content))

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
