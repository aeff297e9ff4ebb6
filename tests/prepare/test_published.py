"""Files of weights that torchvision publishes are found, checked, converted and adapted, each array once."""

import csv
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from helpers.http_server import Server
from helpers.specs import make_data
from howmanygpus.config.schema import read_schema
from howmanygpus.measure.input.prepared import normalize_by
from howmanygpus.measure.models.conversion import IMAGE_SHAPE, NUM_CLASSES, ConversionError, convert
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.prepare.weights import ADDRESS, NAME, MisfitError, adapt, find_file
from howmanygpus.study.checks.initial_weights import list_shapes
from howmanygpus.study.networks import list_pretrained, read_published

NAMES = Path(__file__).with_name("published_names.tsv")
"""Names and shapes of the arrays of torchvision 0.28.0's own networks."""
CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = f"net-{DIGEST[:8]}.pth"


def read_shapes(model: str) -> dict[str, tuple[int, ...]]:
    with open(NAMES, newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["model"] == model]
    return {row["name"]: tuple(map(int, filter(None, row["shape"].split("x")))) for row in rows}


def number_arrays(model: str) -> dict[str, np.ndarray]:
    """Return arrays as torchvision names them, each filled with a number of its own."""
    shapes = read_shapes(model)
    return {name: np.full(shape, number, np.float32) for number, (name, shape) in enumerate(shapes.items(), start=1)}


def number_names(model: str) -> dict[str, np.ndarray]:
    """Return arrays of one value each, with the right number of axes."""
    shapes = read_shapes(model).items()
    return {name: np.full((1,) * len(shape), number, np.float32) for number, (name, shape) in enumerate(shapes)}


def rename(arrays: dict, *pairs: tuple[str, str]) -> dict:
    for pattern, replacement in pairs:
        arrays = {re.sub(pattern, replacement, name): array for name, array in arrays.items()}
    return arrays


@pytest.mark.parametrize("model", list_pretrained())
def test_every_published_array_is_assigned_to_an_array_of_the_network(model):
    arrays = number_arrays(model)
    weights, dropped = convert(model, arrays)
    assert {name: array.shape for name, array in weights.items()} == list_shapes(model, IMAGE_SHAPE, NUM_CLASSES)
    numbers = [float(array.flat[0]) for array in weights.values()]
    assert len(set(numbers)) == len(numbers), "no array is used twice"
    used = {name for name, array in arrays.items() if array.size and float(array.flat[0]) in numbers}
    counters = {name for name in arrays if name.endswith("num_batches_tracked")}
    assert arrays.keys() == used | counters | set(dropped)
    assert all(name.startswith("AuxLogits.") for name in dropped) and bool(dropped) == (model == "inception_v3")
    roles = {name.rpartition(".")[2]: name for name in weights}
    assert {"mean", "variance"} <= roles.keys() or model in ("alexnet", "vit_b16")


def test_names_of_older_files_are_known():
    arrays = number_names("densenet121")
    old = rename(arrays, (r"(denselayer\d+\.(?:norm|conv))([12])", r"\1.\2"))
    old = {name: array for name, array in old.items() if not name.endswith("num_batches_tracked")}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    now, then = convert("densenet121", arrays)[0], convert("densenet121", old)[0]
    assert all(np.array_equal(now[name], then[name]) for name in now)
    arrays = number_names("vit_b16")
    old = rename(arrays, (r"\.mlp\.0\.", ".mlp.linear_1."), (r"\.mlp\.3\.", ".mlp.linear_2."))
    assert old.keys() != arrays.keys()
    now, then = convert("vit_b16", arrays)[0], convert("vit_b16", old)[0]
    assert all(np.array_equal(now[name], then[name]) for name in now)


def test_a_file_of_another_network_is_refused():
    arrays = number_names("resnet18")
    lacking = {name: array for name, array in arrays.items() if name != "layer1.0.bn1.bias"}
    with pytest.raises(ConversionError, match=r"resnet18: the file lacks layer1\.0\.bn1\.bias"):
        convert("resnet18", lacking)
    with pytest.raises(ConversionError, match=r"resnet18: the file also has other\.weight"):
        convert("resnet18", arrays | {"other.weight": np.zeros(1, np.float32)})


def test_the_first_dense_layer_of_alexnet_takes_pixels_before_channels():
    arrays, units = number_names("alexnet"), 16
    kernel = np.arange(units * 9216, dtype=np.float32).reshape(units, 256, 6, 6)
    converted = convert("alexnet", arrays | {"classifier.1.weight": kernel.reshape(units, -1)})[0]["hidden1.kernel"]
    row, column, channel, unit = 2, 5, 77, 13
    assert converted[(row * 6 + column) * 256 + channel, unit] == kernel[unit, channel, row, column]


def draw(num_classes: int) -> dict[str, np.ndarray]:
    return draw_weights(list_draws("small_cnn", (8, 8, 1), num_classes), seed=num_classes)


def test_only_a_last_layer_for_other_classes_is_drawn():
    drawn, given = draw(3), draw(10)
    weights, new = adapt(drawn, given)
    assert new == ["dense.kernel", "dense.bias"]
    assert all(weights[name] is (drawn if name in new else given)[name] for name in drawn)
    weights, new = adapt(drawn, drawn | {"conv1.kernel": given["conv1.kernel"]})
    assert new == [] and weights["conv1.kernel"] is given["conv1.kernel"]


def test_given_weights_of_other_types_or_without_values_are_refused():
    weights = draw(3)
    with pytest.raises(MisfitError, match=r"has conv1\.kernel as float64, not float32"):
        adapt(weights, weights | {"conv1.kernel": weights["conv1.kernel"].astype(np.float64)})
    with pytest.raises(MisfitError, match=r"has values that are not finite in conv1\.kernel"):
        adapt(weights, weights | {"conv1.kernel": weights["conv1.kernel"] * np.float32("nan")})


def test_the_names_of_files_have_checksums_and_their_usual_address_is_torchvisions():
    assert read_schema("machine")["properties"]["published_weights"]["default"] == ADDRESS
    for model in list_pretrained():
        assert NAME.fullmatch(read_published(model).file)


def test_a_file_is_taken_from_a_folder_or_fetched(tmp_path):
    folder, downloads = tmp_path / "site", tmp_path / "downloads"
    folder.mkdir()
    (folder / FILE).write_bytes(CONTENT)
    assert find_file(FILE, str(folder), downloads) == folder / FILE
    assert not downloads.exists()
    with Server(CONTENT) as server:
        address = server.download().url.rpartition("/")[0]
        found = find_file(FILE, address, downloads, pause_s=0.0)
        assert found == downloads / DIGEST[:8] / FILE and found.read_bytes() == CONTENT
        assert find_file(FILE, address, downloads) == found and len(server.requests) == 1
    assert find_file(FILE, str(tmp_path / "nowhere"), downloads) == found, "a file in the downloads is enough"


def test_a_file_that_cannot_be_had_is_named_with_where_to_put_it(tmp_path):
    downloads, remedy = tmp_path / "downloads", f"Fetch {ADDRESS}/{FILE} elsewhere and put it at {tmp_path}/downloads/"
    remedy += f"{DIGEST[:8]}/{FILE} (its SHA-256 begins with {DIGEST[:8]}), or name a folder that has it, or a mirror,"
    (tmp_path / FILE).write_bytes(b"other")
    with Server(b"other") as server:
        for place, problem in (
            (str(tmp_path / "nowhere"), f"{tmp_path}/nowhere/{FILE}: the file is not there"),
            (
                str(tmp_path),
                "the SHA-256 is d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa, and does",
            ),
            (server.download().url.rpartition("/")[0], "the checksum is sha256:d9298a10, not the published sha256:"),
            ("http://127.0.0.1:9", f"http://127.0.0.1:9/{FILE}: the connection broke off"),
        ):
            with pytest.raises(AcquisitionError) as caught:
                find_file(FILE, place, downloads, pause_s=0.0)
            assert problem in str(caught.value) and remedy in str(caught.value)


def test_images_are_normalised_as_asked():
    data = make_data(image_shape=(6, 6, 3))
    assert normalize_by(data, "data") is data
    imagenet, symmetric = (normalize_by(data, name) for name in ("imagenet", "symmetric"))
    assert np.allclose(imagenet.channel_mean, np.multiply(255, (0.485, 0.456, 0.406)))
    assert np.allclose(imagenet.channel_std, np.multiply(255, (0.229, 0.224, 0.225)))
    assert symmetric.channel_mean == symmetric.channel_std == (127.5, 127.5, 127.5)
    assert normalize_by(make_data(image_shape=(6, 6, 1)), "symmetric").channel_mean == (127.5,)
