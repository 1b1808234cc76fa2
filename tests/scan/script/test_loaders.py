from __future__ import annotations

import pytest
from scanning import scan

HEAD = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
SAMPLERS = """from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler
class Own:
    def __iter__(self):
        return iter(order)
"""
STEP = "    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"


def subjects(code: str) -> list[str]:
    return [call.subject for call in scan(HEAD + code).calls if call.name == "DataLoader"]


def stated(code: str, name: str) -> dict[str, object]:
    return {fact.subject: fact.value for fact in scan(HEAD + code).facts if fact.name == name}


@pytest.mark.parametrize(
    "code",
    [
        f"a = DataLoader(d)\nb = DataLoader(e)\nfor x in a:\n{STEP}",
        f"a = DataLoader(d)\nb = DataLoader(e)\nfor i, x in enumerate(tqdm(a)):\n{STEP}",
        f"a = DataLoader(d)\nb = DataLoader(e)\ndef train(l):\n  for x in l:\n{STEP}train(a)",
        f"a = DataLoader(d)\nb = DataLoader(e)\nit = iter(a)\nwhile True:\n    x = next(it)\n{STEP}",
        f"a = DataLoader(d)\nb = DataLoader(e)\na, b = accelerator.prepare(a, b)\nfor x in a:\n{STEP}",
        f"a = DataLoader(d)\nb = DataLoader(e)\na = Prefetcher(a)\nfor x in a:\n{STEP}",
        "train_loader = DataLoader(d)\nval_loader = DataLoader(e)",
        "train_loader, val_loader = DataLoader(d), DataLoader(e)",
        "loaders = {'train': DataLoader(d), 'val': DataLoader(e)}",
        "self.train_loader = DataLoader(d)\nself.test_loader = DataLoader(e)",
        "def get_train_loader():\n    return DataLoader(d)\ndef get_eval_loader():\n    return DataLoader(e)",
        "class M(pl.LightningModule):\n    def train_dataloader(self):\n        return DataLoader(d)\n"
        "    def val_dataloader(self):\n        return DataLoader(e)",
        "a = DataLoader(d)\nb = DataLoader(e)\ntrainer.fit(model, a, b)",
        "a = DataLoader(d)\nb = DataLoader(e)\ntrainer.fit(model, train_dataloaders=a, val_dataloaders=b)",
    ],
)
def test_which_loader_is_trained_on(code: str) -> None:
    both = subjects(code)
    assert both[0] == "loader#train"
    assert both[1] in ("loader#eval", "loader#1")
    assert stated(code, "loader.is_train").get(both[1]) is not True


def test_what_only_another_loop_iterates_over_is_evaluated_on() -> None:
    code = f"a = DataLoader(d)\nb = DataLoader(e)\nfor x in a:\n{STEP}for y in b:\n    model(y)"
    assert stated(code, "loader.is_train") == {"loader#train": True, "loader#eval": False}


@pytest.mark.parametrize(
    ("look", "is_train"),
    [
        ("for x in train_loader:\n    show(x)\n    break\n", False),
        ("for i, x in enumerate(train_loader):\n    show(x)\n    break\n", False),
        ("for x in train_loader:\n    if x.done:\n        break\n", True),
        ("for x in train_loader:\n    show(x)\n    break\nfor x in train_loader:\n    fit(x)\n", True),
        (f"for x in train_loader:\n{STEP}    break\n", True),
    ],
)
def test_a_loader_of_which_a_check_draws_one_batch(look: str, is_train: bool) -> None:
    code = f"train_loader = DataLoader(d)\n{look}def fit(batches):\n  for x in batches:\n{STEP}"
    assert set(stated(code, "loader.is_train").values()) == {is_train}


def test_two_train_loaders_are_two_subjects() -> None:
    code = "if a:\n    train_loader = DataLoader(d)\nelse:\n    train_loader = DataLoader(e)"
    assert stated(code, "loader.is_train") == {"loader#train": True, "loader#1": True}


def test_a_loader_for_both_phases_is_trained_on() -> None:
    code = f"ls = {{p: DataLoader(d[p]) for p in phases}}\nfor x in ls['train']:\n{STEP}for x in ls[phase]:\n{STEP}"
    assert subjects(code) == ["loader#train"]


def test_without_a_hint_nothing_is_said() -> None:
    assert subjects("a = DataLoader(d)") == ["loader#0"]
    assert subjects("transformed = DataLoader(d)") == ["loader#0"]
    assert stated("a = DataLoader(d)", "loader.is_train") == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", False),
        ("shuffle=True", True),
        ("shuffle=False", False),
        ("shuffle=s", None),
        ("sampler=s", None),
        ("**kw", None),
        ("shuffle=False, **kw", None),
        ("shuffle=True, **kw", True),
        ("shuffle=False, sampler=s", None),
        ("shuffle=False, sampler=None", False),
        ("shuffle=True, sampler=None", True),
        ("4, False, RandomSampler(d)", True),
        ("shuffle=False, sampler=torch.utils.data.WeightedRandomSampler(w, 9)", True),
        ("sampler=SequentialSampler(d)", False),
        ("sampler=RandomSampler(d) if a else SequentialSampler(d)", None),
        ("sampler=RandomSampler(d) if a else None", None),
        ("shuffle=False, sampler=DistributedSampler(d)", True),
        ("sampler=DistributedSampler(d, 2, 0, False)", False),
        ("sampler=DistributedSampler(d, shuffle=False)", False),
        ("sampler=DistributedSampler(d, shuffle=s)", None),
        ("sampler=DistributedSampler(d, **kw)", None),
        ("sampler=Own(d)", None),
        ("batch_sampler=Own(d)", None),
        ("batch_sampler=BatchSampler(RandomSampler(d), 4, False)", True),
        ("batch_sampler=BatchSampler(sampler=SequentialSampler(d), batch_size=4, drop_last=False)", False),
        ("batch_sampler=BatchSampler(Own(d), 4, False)", None),
    ],
)
def test_whether_it_shuffles(arguments: str, expected: bool | None) -> None:
    code = f"{SAMPLERS}train_loader = DataLoader(d, {arguments})\nfor x in train_loader:\n{STEP}"
    assert stated(code, "loader.shuffles").get("loader#train") is expected


CLASSES = """import datasets, torchvision
from datasets import load_dataset
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, random_split
from elsewhere import Base
class Rows(Dataset):
    def __getitem__(self, i): return self.x[i]
class Typed(Dataset[int]):
    def __getitem__(self, i): return self.x[i]
class MoreRows(Rows):
    pass
class Bare:
    def __getitem__(self, i): return self.x[i]
class Photos(torchvision.datasets.ImageFolder):
    pass
class Stream(IterableDataset):
    def __iter__(self): yield 1
class MoreStream(Stream):
    def __getitem__(self, i): return 1
class Unknown(Base):
    def __getitem__(self, i): return 1
class Lazy(Dataset):
    pass
@register
class Changed(Dataset):
    def __getitem__(self, i): return 1
class Loader(DataLoader):
    pass
rows = load_dataset("x", split="train")
rows = rows.map(tokenise).shuffle(seed=1)
stream = load_dataset("x", split="train", streaming=True).map(tokenise)
"""


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("TensorDataset(x)", True),
        ("[f(r) for r in rows]", True),
        ("Subset(Stream(), i)", True),
        ("ConcatDataset([a, b])", True),
        ("random_split(d, n)[0]", True),
        ("torchvision.datasets.CIFAR10('x')", True),
        ("torchvision.datasets.folder('x')", None),
        ("Rows()", True),
        ("Typed()", True),
        ("MoreRows()", True),
        ("Bare()", True),
        ("Photos('x')", True),
        ("Stream()", False),
        ("MoreStream()", False),
        ("Unknown()", None),
        ("Lazy()", None),
        ("Changed()", None),
        ("Rows() if a else Stream()", None),
        ("rows", True),
        ("rows.select(range(9))", True),
        ("load_dataset('x')['train']", True),
        ("load_dataset('x', streaming=s)['train']", None),
        ("load_dataset('x', **kw)['train']", None),
        ("load_dataset('x', streaming=False)['train']", True),
        ("stream", False),
        ("datasets.Dataset.from_dict(d)", True),
        ("pool.map(f, rows)", None),
        ("d", None),
    ],
)
def test_whether_its_samples_have_indices(dataset: str, expected: bool | None) -> None:
    code = f"{CLASSES}train_loader = DataLoader({dataset})\nfor x in train_loader:\n{STEP}"
    assert stated(code, "loader.is_map_style").get("loader#train") is expected


def test_a_split_dataset_has_indices() -> None:
    code = f"{CLASSES}a, b = random_split(d, n)\ntrain_loader = DataLoader(a)\nfor x in train_loader:\n{STEP}"
    assert stated(code, "loader.is_map_style") == {"loader#train": True}


def test_a_loader_of_the_file_s_own_may_take_anything() -> None:
    code = f"{CLASSES}train_loader = Loader([1])\nfor x in train_loader:\n{STEP}"
    assert stated(code, "loader.is_map_style") == {}


@pytest.mark.parametrize(
    ("dataset", "expected"), [("rows", {"loader#train": True}), ("stream", {"loader#train": False})]
)
def test_whether_the_samples_of_a_trainer_have_indices(dataset: str, expected: dict[str, bool]) -> None:
    code = f"{CLASSES}from transformers import Trainer\nTrainer(model, train_dataset={dataset}).train()\n"
    assert stated(code, "loader.is_map_style") == expected


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("TensorDataset(x)", True),
        ("torch.utils.data.Subset(TensorDataset(x), i)", True),
        ("[f(r) for r in rows]", True),
        ("torchvision.datasets.CIFAR10('x')", False),
        ("Own(x)", False),
        ("Plain(x)", None),
        ("Held(x)", True),
        ("Windows(x)", True),
        ("Lazy(x)", None),
        ("Table(x)", True),
        ("Padded(x)", True),
        ("Mapped(x)", None),
        ("[f(r) for r in rows], collate_fn=load", None),
        ("load()", None),
    ],
)
def test_whether_its_data_is_in_memory(dataset: str, expected: bool | None) -> None:
    code = f"""
import torchvision
class Own:
    def __getitem__(self, i):
        return decode(self.x[i])
class Plain:
    def __getitem__(self, i):
        return self.x[i]
class Held:
    def __init__(self, rows):
        self.x = [tokenise(row) for row in rows]
    def __getitem__(self, i):
        return torch.tensor(self.x[i])
class Windows:
    def __init__(self, rows):
        self.x = torch.randn(10, 10)
        self.draw = random.Random(0)
    def __getitem__(self, i):
        start = self.draw.randrange(len(self.x[i]) - 3)
        return self.x[i][start : start + 3]
class Table:
    def __init__(self, frame):
        self.x = np.concatenate([frame["a"].values, frame["b"].values])
        self.y = frame["y"].values
    def __getitem__(self, i):
        return torch.FloatTensor(self.x[i]), torch.FloatTensor(self.y[i])
class Padded:
    def __init__(self, path):
        self.x = torch.load(path)
    def __getitem__(self, i):
        return torch.cat([self.x[i], torch.zeros(9 - self.x[i].shape[0])])
class Mapped:
    def __init__(self, path):
        self.x = np.load(path, mmap_mode="r")
    def __getitem__(self, i):
        return torch.FloatTensor(self.x[i])
class Lazy:
    def __init__(self, rows):
        self.x = load_dataset(rows)
    def __getitem__(self, i):
        return self.x[i]
train_loader = DataLoader({dataset})
for x in train_loader:
    model(x).backward(); optimizer.step()
"""
    assert stated(code, "loader.is_in_memory").get("loader#train") is expected


@pytest.mark.parametrize(
    ("parameter", "item", "dataset", "expected"),
    [
        ("rows: Dict[str, torch.Tensor]", "{k: v[i] for k, v in self.rows.items()}", "Given(rows)", True),
        ("rows: torch.Tensor", "self.rows[i]", "Given(rows)", True),
        ("rows: list[Tensor]", "tuple(v[i] for v in self.rows)", "Given(rows)", True),
        ("rows", "self.rows[i]", "Given(torch.zeros(9))", True),
        ("rows", "{k: v[i] for k, v in self.rows.items()}", "Given({'x': torch.zeros(9)})", True),
        ("rows", "{k: v[i] for k, v in self.rows.items()}", "Given({'x': h5py.File('x')})", None),
        ("rows", "self.rows[i]", "Given(load_dataset('x'))", None),
        ("rows: Dict[str, h5py.Dataset]", "{k: v[i] for k, v in self.rows.items()}", "Given(rows)", None),
        ("rows: List[str]", "self.rows[i]", "Given(rows)", None),
        ("rows: Dict[str, torch.Tensor]", "{k: decode(v[i]) for k, v in self.rows.items()}", "Given(rows)", False),
    ],
)
def test_a_dataset_that_cuts_items_out_of_what_it_is_given(
    parameter: str, item: str, dataset: str, expected: bool | None
) -> None:
    code = f"""
class Given:
    def __init__(self, {parameter}):
        self.rows = rows
    def __getitem__(self, i):
        return {item}
train_loader = DataLoader({dataset})
for x in train_loader:
    model(x).backward(); optimizer.step()
"""
    assert stated(code, "loader.is_in_memory").get("loader#train") is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("train_dataset=[f(r) for r in rows]", True),
        ("train_dataset=[f(r) for r in rows], data_collator=DataCollatorWithPadding(t)", True),
        ("train_dataset=[f(r) for r in rows], data_collator=tokenise_all", None),
        ("train_dataset=load_dataset('x')", None),
        ("eval_dataset=[f(r) for r in rows]", None),
    ],
)
def test_whether_the_data_of_a_trainer_is_in_memory(arguments: str, expected: bool | None) -> None:
    code = f"from transformers import Trainer\ntrainer = Trainer(model=m, {arguments})\ntrainer.train()\n"
    assert stated(code, "loader.is_in_memory").get("loader#train") is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"a = DataLoader(d)\nfor x in a:\n{STEP}", False),
        ("a = DataLoader(d)\nfor e in range(3):\n    for x in a:\n        model(x).backward(); optimizer.step()", True),
        ("a = DataLoader(d)\nwhile step < n:\n    for x in a:\n        model(x).backward(); optimizer.step()", True),
        (
            f"a = DataLoader(d)\ndef t():\n  for x in a:\n{STEP}for e in range(3):\n    t()",
            True,
        ),
        ("a = DataLoader(d)\ndef t():\n    for x in a:\n        model(x).backward(); optimizer.step()\nt()", False),
        ("a = DataLoader(d)\ndef t():\n    for x in a:\n        model(x).backward(); optimizer.step()", None),
        ("train_loader = DataLoader(d)", None),
    ],
)
def test_whether_it_is_iterated_over_again(code: str, expected: bool | None) -> None:
    assert stated(code, "loader.is_iterated_again").get("loader#train") is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"for e in range(3):\n  a = DataLoader(d)\n  for x in a:\n{STEP}", True),
        (f"a = DataLoader(d)\nfor e in range(3):\n  for x in a:\n{STEP}", False),
    ],
)
def test_whether_it_is_made_in_a_loop(code: str, expected: bool) -> None:
    assert stated(code, "loader.is_made_in_loop").get("loader#train") is expected
