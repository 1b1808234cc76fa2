"""Whether each sample of a loader is decoded from a file of images, video, sound or volumes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import dataset_argument
from autotune.scan.script.training_loops import TrainingStep, step_path

DECODERS = (
    *("PIL.Image.open", "cv2.imread", "cv2.imdecode", "cv2.VideoCapture", "decord.VideoReader", "imageio.imread"),
    *("skimage.io.imread", "torchvision.io.", "torchaudio.load", "librosa.load", "soundfile.read", "nibabel.load"),
    *("SimpleITK.ReadImage", "pydicom.", "rasterio.open", "tifffile.imread", "av.open", "scipy.io.wavfile.read"),
)
"""Full names, or their beginnings, of what decodes a file."""

FOLDERS = frozenset({"ImageFolder", "ImageNet", "DatasetFolder", "CocoDetection", "Places365", "Food101", "Kinetics"})
"""Datasets of torchvision whose items are files."""

IN_MEMORY = frozenset(
    {"MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS", "FakeData"}
)
"""Datasets of torchvision whose items are read at once; of others nothing is known."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `loader.decodes_files`, of each loader whose dataset is of torchvision or of the script's own."""
    for loader in script.loaders:
        dataset = dataset_argument(loader.node)
        made = [one.node for one in origins(script.view, dataset)] if dataset is not None else []
        found = [_decodes(script.view, one) for one in made]
        if any(found) or (found and all(one is False for one in found)):
            yield Fact("loader.decodes_files", loader.subject, any(found), (loader.call.location,))


def _decodes(view: ScriptView, node: ast.AST) -> bool | None:
    if not isinstance(node, ast.Call):
        return None
    name = full_name(view.index, node.func) or ""
    if name.startswith("torchvision.datasets."):
        last = name.rpartition(".")[2]
        return last in FOLDERS if last in FOLDERS | IN_MEMORY else None
    class_ = called_class(view.index, node.func)
    if class_ is None:
        return None
    for one in with_bases(view.index, class_):
        for method in one.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                inner = view.at(method)
                calls = step_path(inner, [TrainingStep(method)])
                return any(_is_decoder(full_name(inner.at(call).index, call.func)) for call in calls)
    return None


def _is_decoder(name: str | None) -> bool:
    return name is not None and name.startswith(DECODERS)
