"""Checks and resolves the loading settings of a study: the inputs, and the shared or the native loader."""

from dataclasses import dataclass

from howmanygpus.config.errors import refuse
from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.registry import FRAMEWORKS

SHARED, NATIVE, DALI = "shared", "native", "dali"
FILES = ("png", "jpeg")
"""Inputs that have one file per image."""


@dataclass(frozen=True)
class NativeLoader:
    """A loader that a framework brings. The key in NATIVE_LOADERS is its dotted module name below measure/frameworks/.

    kinds: the kinds of workers that it offers; the framework's default comes first.
    inputs: the inputs that it can read.
    resizes: how its resizing differs from the shared loader's; empty if it resizes with Pillow, as that does.
    description: its classes and decoder, for the table in config/README.md.
    """

    kinds: tuple[str, ...]
    inputs: tuple[str, ...] = ("arrays", "png", "jpeg")
    description: str = ""
    resizes: str = ""


NATIVE_LOADERS = {
    "torch.loader": NativeLoader(("processes",), description="PyTorch's DataLoader with Pillow"),
    "torch.dali": NativeLoader(
        ("threads",),
        ("png", "jpeg"),
        description="`dali`: DALI's pipeline on the CPU",
        resizes="in floating point",
    ),
    "keras.tf_data": NativeLoader(("threads",), ("png", "jpeg"), description="tf.data", resizes="in floating point"),
    "keras.loader": NativeLoader(("threads", "processes"), description="Keras's PyDataset with `load_img`"),
    "gluon.loader": NativeLoader(
        ("processes", "threads"), description="Gluon's DataLoader with `mx.image`", resizes="by OpenCV"
    ),
    "chainer.loader": NativeLoader(
        ("processes", "threads"), description="Chainer's MultiprocessIterator or MultithreadIterator with Pillow"
    ),
}


def name_loader(framework: str, loader: str) -> str | None:
    """Return the module of a loader that is not the shared one; None if the framework has none."""
    entry = FRAMEWORKS[framework]
    return entry.dali_loader if loader == DALI else entry.native_loader


def check_inputs(place: str, inputs: list[str], source: str, image_shape: tuple[int, int, int]) -> None:
    """Raise ConfigError if a data source lacks an input, or if an image file cannot store that many channels."""
    if source == "synthetic" and not set(inputs) <= set(RANDOM_INPUTS):
        raise refuse(place, inputs, "with a synthetic data set", "write [synthetic], [resident] or both")
    files, channels = [form for form in inputs if form in FILES], image_shape[2]
    if files and channels not in (1, 3):
        remedy = f"leave {', '.join(files)} out, which are written of 1 or 3"
        raise refuse(place, inputs, f"with images of {channels} channels", remedy)


def check_loaders(place: str, variants: dict[str, dict], given: dict[str, dict]) -> None:
    """Raise ConfigError if `loader_kind` is set for the shared loader, which only has threads.

    variants: complete settings by name. given: the settings of each variant as the config gives them.
    """
    for variant, settings in variants.items():
        kind = settings["loader_kind"]
        if settings["loader"] == SHARED and kind is not None:
            own = given[variant].keys() & {"loader", "loader_kind"}
            place = f"{place}.variants.{variant}" if own else place
            problem = "is a choice of native loaders; the shared one has threads"
            raise refuse(f"{place}.loader_kind", kind, problem, "leave it out or write loader: native")


def explain_missing_loader(framework: str, source: str, settings: dict) -> str:
    """Return why a framework lacks the requested native loader.

    The text is empty if the framework has the loader, or if the shared loader is requested.
    source: the input. settings: `loader`, `loader_kind` and `random_resized_crop`.
    """
    if settings["loader"] == SHARED:
        return ""
    name, is_dali = name_loader(framework, settings["loader"]), settings["loader"] == DALI
    if source in RANDOM_INPUTS:
        return f"{source} input is there to leave loading out: only the shared loader hands it over"
    if name is None:
        if is_dali:
            having = ", ".join(each for each, entry in FRAMEWORKS.items() if entry.dali_loader)
            return f"loader: dali is a choice of {having}; {framework} has none here"
        return f"{framework} has no loader of its own: its users bring one from elsewhere"
    loader, kind, whose = NATIVE_LOADERS[name], settings["loader_kind"], f"{framework}'s own loader"
    whose = f"DALI's pipeline for {framework}" if is_dali else whose
    if source not in loader.inputs:
        return f"{whose} reads {', '.join(loader.inputs)}, not {source}"
    if kind is not None and kind not in loader.kinds:
        return f"{whose} has {', '.join(loader.kinds)}, not {kind}"
    if settings["random_resized_crop"] and loader.resizes:
        return f"{whose} resizes {loader.resizes}, so that random_resized_crop gives other pixels"
    return ""


def resolve_loader(framework: str, settings: dict) -> dict:
    """Return `loader` and `loader_kind` for `train`: the name of a module, and the kind of its workers.

    If the framework has no native loader, both are returned unchanged, because the run is never started.
    """
    name = name_loader(framework, settings["loader"])
    if settings["loader"] == SHARED:
        return {"loader": SHARED, "loader_kind": "threads"}
    if name is None:
        return {"loader": settings["loader"], "loader_kind": settings["loader_kind"]}
    return {"loader": name, "loader_kind": settings["loader_kind"] or NATIVE_LOADERS[name].kinds[0]}
