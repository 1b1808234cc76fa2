"""Names that releases removed: which a run certainly comes to, and which releases lack them."""

from __future__ import annotations

import textwrap

import pytest

from autotune.scan import scan

TRAIN = """
{imports}
import torch
from torch.utils.data import DataLoader, Dataset

{above}

def main():
    model = torch.nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader({dataset}, batch_size=4):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {inside}

main()
"""


@pytest.fixture
def names(tmp_path):
    """names(imports, above, inside, **files): facts `names.*` of such a script."""

    def of(imports="", above="", inside="pass", dataset="range(9)", files=()):
        text = TRAIN.format(
            imports=textwrap.dedent(imports), above=textwrap.dedent(above), inside=inside, dataset=dataset
        )
        (tmp_path / "train.py").write_text(text, encoding="utf-8")
        for name, content in dict(files).items():
            (tmp_path / name).write_text(textwrap.dedent(content), encoding="utf-8")
        found = next(one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "train.py")
        return {fact.name.removeprefix("names."): fact for fact in found.facts if fact.name.startswith("names.")}

    return of


def removed(found):
    return [part.split()[0] for part in str(found["removed"].value).split("), ")] if found else []


SET = """
class Some(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        {body}
"""


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"imports": "from torch._six import inf"}, ["torch._six"]),
        ({"imports": "import torch._six"}, ["torch._six"]),
        ({"imports": "from collections import Mapping, OrderedDict"}, ["collections.Mapping"]),
        ({"imports": "from transformers import AdamW as A, AutoModel"}, ["transformers.AdamW"]),
        ({"imports": "import numpy as np", "inside": "np.float(loss)"}, ["numpy.float"]),
        (
            {
                "imports": "import numpy as np",
                "above": SET.format(body="return np.zeros(3, dtype=np.int)"),
                "dataset": "Some()",
            },
            ["numpy.int"],
        ),
        ({"imports": "import numpy as np\nfrom torch._six import inf", "inside": "np.Inf"},
         ["torch._six", "numpy.Inf"]),
        ({"imports": "from helpers import f", "files": {"helpers.py": "from fractions import gcd\n\ndef f(): ...\n"},
          "inside": "f()"}, ["fractions.gcd"]),
    ],
    ids=["a module's name", "a module", "one of several", "as another name", "in the loop", "of a dataset", "two",
         "of a module"],
)  # fmt: skip
def test_what_a_run_comes_to(names, case, expected):
    assert removed(names(**case)) == expected


@pytest.mark.parametrize(
    "case",
    [
        {"imports": "try:\n    from torch._six import inf\nexcept ImportError:\n    from torch import inf"},
        {"imports": "import sys\nif sys.version_info < (3, 10):\n    from collections import Mapping"},
        {"imports": "import numpy as np\nnp.float = float", "inside": "np.float(loss)"},
        {"imports": "import numpy as np", "above": "def unused():\n    return np.float(1)"},
        {"imports": "import numpy as np", "above": SET.format(body="return np.int(1)")},
        {"imports": "import numpy as np", "inside": "np.float32(loss)"},
        {"imports": "import numpy as np", "inside": "np.bool"},
        {"imports": "from collections.abc import Mapping"},
        {"imports": "from mine import AdamW", "files": {"mine.py": "class AdamW: ...\n"}},
        {"imports": "import numpy as np",
         "inside": "x = np.float(1) if hasattr(np, 'float') else float(1)"},
        {"imports": "from torch._six import inf", "files": {"requirements.txt": "torch==1.11.0\n"}},
        {"imports": "from torch._six import inf", "files": {"requirements.txt": "torch<2\n"}},
        {"imports": "import numpy as np", "inside": "np.float(loss)", "files": {"requirements.txt": "numpy==1.22.0\n"}},
        {"imports": "import numpy as np", "inside": "np.float(loss)", "files": {"requirements.txt": "torch==1.9.0\n"}},
    ],
    ids=["tried", "guarded", "put back", "not called", "not made", "another", "back in 2.0", "the new place",
         "one's own", "asked for", "pinned", "bounded", "numpy pinned", "of an old environment"],
)  # fmt: skip
def test_what_nothing_is_said_of(names, case):
    assert removed(names(**case)) == []


def test_a_pinned_release_without_it_is_certain(names):
    found = names(imports="import numpy as np", inside="np.float(loss)", files={"requirements.txt": "numpy==1.26.4\n"})
    assert (found["package_version"].value, found["removed_since"].value) == ((1, 26, 4), (1, 24))
    assert found["removed"].value == "numpy.float (removed in 1.24 of numpy, now float)"
    assert [place.line for place in found["removed"].places] == [16]
    assert "declared" not in found


@pytest.mark.parametrize(
    ("requirement", "declared"),
    [
        ("numpy>=1.20", "the requirement is numpy>=1.20; no release of torch is declared"),
        ("scipy==1.11", "no release of torch, numpy is declared"),
    ],
)
def test_where_the_release_is_not_known(names, requirement, declared):
    found = names(
        imports="import numpy as np\nfrom torch._six import inf",
        inside="np.float(loss)",
        files={"requirements.txt": f"{requirement}\n"},
    )
    assert found["declared"].value == declared
    assert "package_version" not in found
