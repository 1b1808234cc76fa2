"""Loaders by classes that extend one, that a condition chooses, and of a folder of the project called datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

TRAIN = """
import torch
{imports}
{before}
train_loader = {made}
for epoch in range(9):
    for x in train_loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
"""
TORCH = "from torch.utils.data import DataLoader"
OWN = """
class Loader(DataLoader):
    def __init__(self, data, {parameters}):
        super().__init__({given})
"""


def workers(root: Path, made: str, imports: str = TORCH, before: str = "", **modules: str) -> object:
    """loader.num_workers of the training loader, None where it is not known."""
    return settings_of(root, made, before, imports, **modules).get("loader.num_workers")


def settings_of(root: Path, made: str, before: str, imports: str = TORCH, **modules: str) -> dict[str, object]:
    """The settings of the training loader that are known."""
    for name, text in {"train.py": TRAIN.format(imports=imports, before=before, made=made), **modules}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    bundles = scan([root], root=root).bundles
    return {one.name: one.value for each in bundles for one in each.settings if one.subject == "loader#train"}


@pytest.mark.parametrize(
    ("parameters", "given", "expected"),
    [
        ("**rest", "data, collate_fn=data.collate, **rest", 0),
        ("batch_size=4, shuffle=True, **rest", "data, batch_size, shuffle, **rest", None),
        ("size=4, **rest", "data, size, **rest", None),
        ("size=4, **rest", "data, batch_size=size, **rest", None),
        ("**rest", "data, num_workers=4, **rest", None),
        ("cfg", "data, **cfg", None),
        ("**rest", "data, **{'num_workers': 4, **rest}", None),
        ("cfg, **rest", "data, **cfg, **rest", None),
    ],
)
def test_a_class_that_hands_on_its_keywords(tmp_path: Path, parameters: str, given: str, expected: object) -> None:
    before = OWN.format(parameters=parameters, given=given)
    assert workers(tmp_path, "Loader(Rows(), batch_size=8)", before=before) == expected


def test_a_class_that_adds_methods_alone(tmp_path: Path) -> None:
    before = "class Loader(DataLoader):\n    def collate(self, rows):\n        return rows\n"
    assert workers(tmp_path, "Loader(Rows(), num_workers=0)", before=before) == 0


def test_keywords_that_the_class_changes(tmp_path: Path) -> None:
    before = OWN.format(parameters="**rest", given="data, **rest").replace(
        "super()", "rest['num_workers'] = 4; super()"
    )
    assert workers(tmp_path, "Loader(Rows())", before=before) is None


GRAPHS = "from torch_geometric.loader import DataListLoader, DataLoader, NeighborLoader"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("DataListLoader if torch.cuda.is_available() else DataLoader", 0),
        ("NeighborLoader if torch.cuda.is_available() else DataLoader", None),
        ("list if small else DataLoader", None),
    ],
)
def test_a_class_that_a_condition_chooses(tmp_path: Path, chosen: str, expected: object) -> None:
    made = "Class(Rows(), batch_size=8, shuffle=True)"
    assert workers(tmp_path, made, GRAPHS, f"Class = {chosen}\n") == expected


MAKES = f"{TORCH}\ndef load(rows):\n    train_loader = DataLoader(rows, num_workers=0)\n    return train_loader\n"


def test_a_folder_that_is_called_like_a_library(tmp_path: Path) -> None:
    imports = "from datasets.images import load"
    assert workers(tmp_path, "load(Rows())", imports, **{"datasets/images.py": MAKES}) == 0


def test_the_library_itself(tmp_path: Path) -> None:
    imports = "from datasets import load_dataset"
    assert workers(tmp_path, "load_dataset('rows')", imports, **{"datasets/images.py": MAKES}) is None


ITEMS = """
from torch_geometric.data import Dataset
class Graphs(Dataset):
    def __init__(self, files):
        self.files = files
    def get(self, i):
        return read(self.files[i])
"""


def test_a_dataset_of_graphs_gives_its_items_by_get(tmp_path: Path) -> None:
    workers(tmp_path, "DataLoader(Graphs(files))", GRAPHS, ITEMS)
    facts = [one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts]
    assert {one.value for one in facts if one.name == "loader.is_in_memory"} == {False}


def test_get_of_another_class_is_any_method(tmp_path: Path) -> None:
    before = ITEMS.replace("torch_geometric.data", "torch.utils.data")
    workers(tmp_path, "DataLoader(Graphs(files))", TORCH, before)
    facts = [one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts]
    assert not [one for one in facts if one.name == "loader.is_in_memory"]


HANDS_ON = "class Loader(DataLoader):\n    def __init__(self, data, **rest):\n        super().__init__(data, **rest)\n"


@pytest.mark.parametrize(
    "before",
    [
        "class Loader(DataLoader):\n    def __iter__(self):\n        return BackgroundGenerator(super().__iter__())\n",
        "class Loader(DataLoader):\n    def _get_iterator(self):\n        return Kept(super()._get_iterator())\n",
        "class Loader(DataLoader):\n    __iter__ = kept\n",
        "class Loader(DataLoader):\n    @property\n    def num_workers(self):\n        return 4\n",
        "class Base(DataLoader):\n    def __iter__(self):\n        return kept(self)\nclass Loader(Base):\n    pass\n",
        "class Loader(Prefetching, DataLoader):\n    pass\n",
        "@prefetched\nclass Loader(DataLoader):\n    pass\n",
        f"{HANDS_ON}        self.num_workers = 4\n",
        f"{HANDS_ON}        setattr(self, 'num_workers', 4)\n",
        f"{HANDS_ON}        object.__setattr__(self, 'batch_sampler', Repeated(self.batch_sampler))\n",
        f"{HANDS_ON}        self.__dict__['num_workers'] = 4\n",
        HANDS_ON.replace("data, **rest):", "data, num_workers=4, **rest):"),
        HANDS_ON.replace("data, **rest):", "data, *, pin_memory=True, **rest):"),
    ],
)
def test_a_class_that_makes_its_batches_in_its_own_way(tmp_path: Path, before: str) -> None:
    """Its defaults are not torch's: it has no number of workers that can be read, and starts none anew that it says."""
    assert workers(tmp_path, "Loader(Rows())", before=before) is None
    given = settings_of(tmp_path, "Loader(Rows(), num_workers=8)", before)
    assert "loader.persistent_workers" not in given


@pytest.mark.parametrize("more", ["        self.rows = data\n", "    def __len__(self):\n        return 3\n"])
def test_a_class_that_leaves_the_batches_to_torch(tmp_path: Path, more: str) -> None:
    assert workers(tmp_path, "Loader(Rows())", before=HANDS_ON + more) == 0
    assert settings_of(tmp_path, "Loader(Rows(), num_workers=8)", HANDS_ON + more)["loader.persistent_workers"] is False


def test_positional_arguments_of_a_class_without_a_constructor(tmp_path: Path) -> None:
    before = "class Loader(DataLoader):\n    pass\n"
    assert settings_of(tmp_path, "Loader(Rows(), 8)", before)["loader.batch_size"] == 8
