"""Pillow-SIMD, in its own environment, gives the same pixels or reason as Pillow for every image file."""

import hashlib
import inspect
import json
import os
import subprocess
from pathlib import Path

import pytest

from environments import build, read_python
from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.resizing import resize
from pictures import SHARED_DATA, bad_and_unusual, smooth
from project import ROOT

HEADERS = [Path("/usr/include") / name for name in ("zlib.h", "jpeglib.h")]
IMPORTS = """
import hashlib, json, sys
from pathlib import Path
import PIL
from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.resizing import resize
"""


def describe(folder: Path) -> dict:
    """Return, for every file as gray and as RGB, hashes of the decoded and of the shrunk pixels, or the error."""
    ends = {}
    for path in sorted(folder.iterdir()):
        for channels in (1, 3):
            try:
                image = decode(path.read_bytes(), channels, "pillow")
                shrunk = resize(image, (24, 32), "area")
                ends[f"{path.name} {channels}"] = [
                    hashlib.sha256(each.tobytes()).hexdigest() for each in (image, shrunk)
                ]
            except BadImageError as error:
                ends[f"{path.name} {channels}"] = error.reason
    return ends


@pytest.mark.skipif(
    not all(map(Path.exists, HEADERS)), reason=f"Pillow-SIMD is built from source, with {', '.join(map(str, HEADERS))}"
)
def test_every_file_ends_alike(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for name, data in bad_and_unusual(smooth(), smooth(channels=3)).items():
        (files / f"generated_{name}").write_bytes(data)
    if SHARED_DATA.is_dir():
        for path in (*(SHARED_DATA / "corrupt").iterdir(), *sorted((SHARED_DATA / "birds").rglob("*.jpg"))[:5]):
            (files / f"real_{path.name}").write_bytes(path.read_bytes())
    script = (
        f"{IMPORTS}\n{inspect.getsource(describe)}\nprint(json.dumps([PIL.__version__, describe(Path(sys.argv[1]))]))"
    )
    python = read_python(build("pillow-simd", tmp_path))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run([python, "-c", script, str(files)], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    version, ends = json.loads(result.stdout)
    assert version == "12.1.1.post0"
    expected = describe(files)
    assert ends == expected and len(ends) >= 36
    assert {"truncated", "damaged", "transparent", "unknown", "too_large", "empty"} <= {
        end for end in ends.values() if isinstance(end, str)
    }
