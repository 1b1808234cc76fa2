"""Whether each sample of a loader is decoded from a file of images, video, sound or volumes, or made of one that is
held as a file, while training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.index import Function
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import TRAIN, dataset_argument
from autotune.scan.script.training_loops import TrainingStep, step_path
from autotune.syntax.python import last_name

DECODERS = (
    *("PIL.Image.open", "cv2.imread", "cv2.imdecode", "cv2.VideoCapture", "decord.VideoReader", "imageio.imread"),
    *("skimage.io.imread", "torchvision.io.", "torchaudio.load", "librosa.load", "soundfile.read", "nibabel.load"),
    *("SimpleITK.ReadImage", "pydicom.", "rasterio.open", "tifffile.imread", "av.open", "scipy.io.wavfile.read"),
    *("torchaudio.functional.resample", "librosa.resample", "librosa.feature.", "qwen_vl_utils.process_vision_info"),
    *("transformers.image_utils.load_image", "diffusers.utils.load_image", "transformers.audio_utils.load_audio"),
)
"""Full names, or their beginnings, of what decodes a file, or computes on each value of it."""

PROCESSORS = re.compile(r"(?:^|_)(?:feature_extractor|image_processor|processor|image_processor_fast)$")
"""How a processor of transformers is called that resizes pictures or computes spectra."""

OF_MEDIA = frozenset({"images", "image", "videos", "audio", "audios", "raw_speech", "speech", "sampling_rate"})
"""Arguments by which a processor gets pictures or sound; of a text alone it makes tokens."""

COLUMNS = frozenset({"array", "input_values", "input_features"})
"""Keys of sound as the hub's datasets have it: samples, which are decoded when they are asked for, and what a feature
extractor made of them, whose every number passes through Python."""

MODES = frozenset({"RGB", "L", "RGBA"})
"""What a picture of PIL is converted to, which decodes it."""

TRANSFORMS = frozenset({"set_transform", "with_transform"})
"""Methods of the hub's datasets after which a function makes each sample when it is asked for."""

COLLATES = ("__call__", "torch_call")

FOLDERS = frozenset({"ImageFolder", "ImageNet", "DatasetFolder", "CocoDetection", "Places365", "Food101", "Kinetics"})
"""Datasets of torchvision whose items are files."""

IN_MEMORY = frozenset(
    {"MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS", "FakeData"}
)
"""Datasets of torchvision whose items are read at once; of others nothing is known."""

LOADER_MAKER = "get_train_dataloader"
"""The method of a Trainer that makes the loader of the training."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `loader.decodes_files`, of each loader whose dataset is of torchvision or of the script's own, and of the
    one that a Trainer makes, where it is true."""
    for loader in script.loaders:
        dataset = dataset_argument(loader.node)
        made = [one.node for one in origins(script.view, dataset)] if dataset is not None else []
        found = [_decodes(script.view, one) for one in made]
        if (any(found) and False not in found) or (found and all(one is False for one in found)):
            yield Fact("loader.decodes_files", loader.subject, any(found), (loader.call.location,))
    for node in script.trainers[:1]:
        if _decodes_for_trainer(script.view, node):
            yield Fact("loader.decodes_files", TRAIN, True, (script.view.place(node),))


def _decodes_for_trainer(view: ScriptView, trainer: ast.Call) -> bool:
    """Whether the dataset, the collator or a transform of the hub's dataset decodes what a Trainer trains on."""
    class_ = called_class(view.index, trainer.func)
    family = with_bases(view.index, class_) if class_ is not None else ()
    if any(LOADER_MAKER in view.index.inner[one].bindings for one in family):
        return False
    if any(_decodes(view, one) for value in _given(trainer, "train_dataset") for one in _datasets(view, value)):
        return True
    collators = [one for value in _given(trainer, "data_collator") for one in functions_of(view, value)]
    transforms = [
        one
        for name in sorted(TRANSFORMS)
        for call in view.index.called.get(name, ())
        if call.args and is_reached(view, call) is not False
        for one in functions_of(view, call.args[0])
    ]
    return any(decodes(view, one) for one in (*collators, *transforms))


def _datasets(view: ScriptView, value: ast.expr) -> Iterator[ast.AST]:
    """What a dataset may be made by; of one out of a DatasetDict, all of its parts."""
    for origin in origins(view, value):
        node = origin.node.value if isinstance(origin.node, ast.Subscript) else origin.node
        for one in origins(view, node) if node is not origin.node else (origin,):
            made = one.node
            if isinstance(made, ast.Call) and last_name(made.func) == "DatasetDict" and made.args:
                parts = made.args[0].values if isinstance(made.args[0], ast.Dict) else []
                yield from (inner.node for part in parts for inner in origins(view, part))
            else:
                yield made


def _given(call: ast.Call, name: str) -> Iterator[ast.expr]:
    yield from (one.value for one in call.keywords if one.arg == name)


def functions_of(view: ScriptView, node: ast.expr) -> Iterator[Function | ast.Lambda]:
    """The functions of the project that a value may be, or that an object of it runs when it is called."""
    for origin in origins(view, node):
        found = origin.node
        if isinstance(found, ast.Call) and last_name(found.func) == "partial" and found.args:
            yield from functions_of(view, found.args[0])
        elif isinstance(found, ast.FunctionDef | ast.Lambda):
            yield found
        elif isinstance(found, ast.Call) and (class_ := called_class(view.index, found.func)) is not None:
            yield from _methods(view, class_, COLLATES)


def _methods(view: ScriptView, class_: ast.ClassDef, names: tuple[str, ...]) -> Iterator[ast.FunctionDef]:
    """The nearest methods of these names."""
    for one in with_bases(view.index, class_):
        found = [each for each in one.body if isinstance(each, ast.FunctionDef) and each.name in names]
        if found:
            yield from found
            return


def decodes(view: ScriptView, function: Function | ast.Lambda) -> bool:
    """Whether a function decodes files, or computes on pictures or sound, each time it is called."""
    inner = view.at(function)
    if isinstance(function, ast.Lambda):
        return any(_is_decoding(inner, one) for one in ast.walk(function))
    calls = step_path(inner, [TrainingStep(function)])
    return any(_is_decoding(inner, one) for one in (*calls, *ast.walk(function)))


def _is_decoding(view: ScriptView, node: ast.AST) -> bool:
    """A call of a decoder or of a processor of media, `picture.convert("RGB")`, `row["audio"]["array"]`, and the
    spectra of a row, `row["input_features"]`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in COLUMNS
    if not isinstance(node, ast.Call):
        return False
    if (full_name(view.at(node).index, node.func) or "").startswith(DECODERS):
        return True
    name = last_name(node.func)
    if name == "convert" and node.args:
        return isinstance(node.args[0], ast.Constant) and node.args[0].value in MODES
    has_media = any(one.arg in OF_MEDIA for one in node.keywords)
    return bool(PROCESSORS.search(name)) and (has_media or name.endswith("feature_extractor"))


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
    return next((decodes(view, one) for one in _methods(view, class_, ("__getitem__",))), None)
