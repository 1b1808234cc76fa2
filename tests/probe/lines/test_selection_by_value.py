from __future__ import annotations

import textwrap

import pytest

from autotune.probe.lines import selection_by_value, statements


@pytest.fixture
def picking(tmp_path):
    """picking(source): the numbers of its lines that pick by value."""

    def of(source):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source), encoding="utf-8")
        statements.parsed.cache_clear()
        return [line for _, line in selection_by_value.of_lines((str(file), line) for line in range(1, 40))]

    return of


@pytest.mark.parametrize(
    "body",
    [
        "return loss[loss.topk(k).indices].mean()",
        "order = loss.detach().argsort(descending=True)\n    return loss[order[:k]].mean()",
        "order = np.argsort(loss.cpu().data)\n    keep = order[:k]\n    return torch.gather(loss, 0, keep).mean()",
        "_, keep = torch.sort(f.cross_entropy(scores, y))\n    return loss[keep[:k]]",
        "best = error(loss).argmin(1)\n    return loss.gather(1, best)",
        "return loss[loss > loss.quantile(0.7)].mean()",
        "sure = (teacher(scores).amax(-1) > 0.6).float()\n    return (loss * sure).sum()",
    ],
    ids=[
        "topk",
        "detached",
        "numpy and gather",
        "another network's",
        "the best of several",
        "a threshold of its own",
        "a teacher's confidence",
    ],
)
def test_picked_by_what_was_computed(picking, body):
    source = f"def hardest(loss, scores, y, k):\n    {body}\n"
    assert picking(source) == [len(source.splitlines())]


@pytest.mark.parametrize(
    "body",
    [
        "order = torch.rand(len(x), n, device=x.device).argsort(dim=1)\n    return x.gather(1, order[:, :k])",
        "noise = torch.rand_like(x)\n    keep = noise.topk(k).indices\n    return x[keep]",
        "order = lengths.argsort()\n    return x[order]",
        "return x[torch.randperm(len(x))[:k]]",
        "return x[labels != -100]",
        "return (x * (labels > 0).float()).sum()",
        "mask = (torch.arange(n) < lengths[:, None]).float()\n    return (x * mask).sum()",
        "return (x * (torch.rand(len(x)) < 0.2)).sum()",
        "return x[:, 0]",
        "order = x.argsort()\n    return order",
    ],
    ids=[
        "random order",
        "random numbers first",
        "the data's order",
        "random rows",
        "a mask of the data",
        "a mask of the data as a factor",
        "lengths",
        "a random mask",
        "one position",
        "nothing is picked",
    ],
)
def test_known_before(picking, body):
    assert picking(f"def some(x, lengths, labels, n, k):\n    {body}\n") == []


def test_an_order_of_another_function_is_not_known(picking):
    source = """
        def order(loss):
            return loss.argsort()

        def pick(loss, order):
            return loss[order]
    """
    assert picking(source) == []


def test_a_file_that_is_gone_has_none():
    assert selection_by_value.of_lines([("/nowhere/train.py", 3)]) == []
