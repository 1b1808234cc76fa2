"""Rows that nobody uses and rows that come several times, in a session of a small loop."""

from __future__ import annotations

import random
import sys

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe.lines import rows
from autotune.probe.lines.rows import repetitions
from autotune.probe.what_ifs import schedule


@pytest.fixture
def rows_of(attach, left, monkeypatch):
    """rows_of(model, loss(model, x)): what the phase says of each module, by name."""
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(schedule.needless_work, "can_be_watched", lambda _: False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def train(model, loss):
        session = attach(steps=4, warmup=1)
        monkeypatch.setattr(schedule, "LOOKS", (("rows", {}),))
        session.wait_share = lambda: 0.0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        torch.manual_seed(0)
        with pytest.raises(left):
            for (x,) in DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=16):
                loss(model, x).backward()
                optimizer.step()
                optimizer.zero_grad()
        assert session.lines["rows"]["steps"] == 3
        train.session = session
        return {row["name"]: (row["unused"], row["repeated"]) for row in session.lines["rows"]["rows"]}

    return train


class TiedHead(nn.Module):
    """Scores by the weights of another layer, and no module does."""

    def __init__(self, score):
        super().__init__()
        self.inner, self.score = nn.Linear(8, 8), score
        self.table = nn.Parameter(torch.randn(20, 8))

    def forward(self, x):
        return self.score(torch.tanh(self.inner(x)), self.table)


TIED = {
    "linear": lambda h, table: nn.functional.linear(h, table),
    "operator": lambda h, table: h @ table.T,
    "matmul": lambda h, table: torch.matmul(h, table.t()),
    "method": lambda h, table: h.matmul(table.t()),
    "by name": lambda h, table: nn.functional.linear(input=h, weight=table),
}


@pytest.mark.parametrize("kind", TIED)
def test_a_product_with_a_weight_is_looked_at_where_no_module_makes_it(rows_of, kind):
    """Every fourth row is used: the head's inputs could be picked before."""
    rows_of(TiedHead(TIED[kind]), indexed)
    (row,) = [row for row in rows_of.session.lines["rows"]["rows"] if not row["name"]]
    assert row["unused"] == pytest.approx(0.75)
    assert row["place"] == (__file__, TIED[kind].__code__.co_firstlineno)
    assert torch.overrides._get_current_function_mode() is None, "the look is over"


@pytest.mark.parametrize(
    "score",
    [
        lambda h, table: h @ (h.T @ h),
        lambda h, table: (table @ h.T).T,
        lambda h, table: h @ (table.detach().T.requires_grad_()),
    ],
    ids=["two activations", "a weight from the left: its rows are features", "an input with a gradient"],
)
def test_what_is_no_head(rows_of, score):
    rows_of(TiedHead(score), indexed)
    assert all(row["name"] for row in rows_of.session.lines["rows"]["rows"])


class Bare(nn.Module):
    """No layer of torch's: the data is told by what the product gets."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 20))

    def forward(self, x):
        return torch.tanh(x @ self.table)


def test_a_model_without_layers_is_looked_at(rows_of):
    rows_of(Bare(), indexed)
    assert [row["unused"] for row in rows_of.session.lines["rows"]["rows"] if not row["name"]] == pytest.approx([0.75])


def test_a_mode_that_the_script_has_begun_meanwhile_is_left_to_it():
    noted = []
    mode = rows.products(lambda *given: noted.append(given))
    with torch.device("meta"):
        mode.undo()
        assert torch.zeros(1).device.type == "meta"
        torch.zeros(2, 2) @ nn.Parameter(torch.zeros(2, 2))
    assert torch.zeros(1).device.type == "cpu"
    assert torch.overrides._get_current_function_mode() is None
    assert not noted


def test_within_a_mode_of_the_scripts_nothing_is_looked_at():
    with torch.device("meta"):
        assert rows.products(print) is None


def net():
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


def indexed(model, x):
    """Another quarter of the rows in each step."""
    return model(x)[torch.randperm(len(x))[: len(x) // 4]].square().mean()


def mixed(model, x):
    """Two calls of all rows, of which torch.where takes one or the other: how many of each differs."""
    return torch.where(torch.rand(len(x), 1) < 0.2, model(-x), model(x)).square().mean()


def searched(model, x):
    """Two neighbours are drawn for each of a quarter of the rows; some are the same."""
    return model(x.repeat(2, 1))[torch.randint(2 * len(x), (4,))].square().mean()


def saturated(model, x):
    """A hinge that most rows satisfy: which, and how many, depends on the data."""
    return torch.relu(model(x)[:, 0] * x[:, 0]).mean()


def pooled(model, x):
    """The largest of each four rows: which, depends on the values."""
    return model(x).reshape(-1, 4, 4).amax(dim=1).square().mean()


def sorted_by_value(model, x):
    """The four rows with the largest sums."""
    return model(x).square().mean(dim=1).sort(descending=True)[0][:4].mean()


def pooled_after_another_backward(model, x):
    """A backward that does not reach the layers comes between them and their own."""
    output = model(x)
    torch.ones(1, requires_grad=True).backward()
    return output.reshape(-1, 4, 4).amax(dim=1).square().mean()


def normalised(model, x):
    """Another quarter of the rows in each step; the length of a row is held above a least one."""
    return nn.functional.normalize(model(x), dim=-1)[torch.randperm(len(x))[: len(x) // 4]].sum(dim=1).square().mean()


def used(model, x):
    return model(x).square().mean()


@pytest.mark.parametrize(
    ("loss", "unused"),
    [
        (indexed, 0.75),
        (normalised, 0.75),
        (mixed, 0.5),
        (searched, pytest.approx(0.9, abs=0.03)),
        (saturated, 0.0),
        (pooled, 0.0),
        (sorted_by_value, 0.0),
        (pooled_after_another_backward, 0.0),
        (used, 0.0),
    ],
    ids=[
        "indexed afterwards",
        "after a bound",
        "one of two calls",
        "nearly all of them",
        "a loss that is zero of many",
        "the largest of several",
        "the first of an order",
        "another backward between",
        "all of them used",
    ],
)
def test_rows_that_get_no_gradient_are_as_many_in_each_step(rows_of, loss, unused):
    found = rows_of(net(), loss)
    assert {name: row for name, row in found.items() if row[0] is not None} == {
        "0": (unused, None),
        "2": (unused, None),
    }


class Scored(nn.Module):
    """Ids of eight letters, for which there are a hundred rows."""

    def __init__(self, outputs):
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(100, 8), nn.Linear(8, 8), nn.Linear(8, outputs)

    def forward(self, x):
        ids = torch.clamp((x * 3).abs().long(), max=6)
        ids[0, 0] = 7
        return self.head(torch.tanh(self.inner(self.table(ids))))


@pytest.mark.parametrize(("outputs", "heads"), [(100, ["head"]), (8, [])])
def test_the_largest_id_of_a_table_and_the_layers_that_score_all_its_rows(rows_of, outputs, heads):
    rows_of(Scored(outputs), used)
    (row,) = rows_of.session.lines["rows"]["vocabularies"]
    assert row == {"name": "table", "rows": 100, "largest": 7, "ids": 3 * 16 * 8, "heads": heads}


class Placed(nn.Module):
    """Positions, of which there are as many as the layers are wide; `layers` of them."""

    def __init__(self, layers, ids):
        super().__init__()
        self.ids, self.table = ids, nn.Embedding(24, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 24) for _ in range(layers))

    def forward(self, x):
        h = self.table(self.ids.expand(len(x), -1)) + x[..., None]
        return sum(layer(h) for layer in self.layers)


ORDER, IDS = torch.arange(8), torch.tensor([3, 1, 2, 2, 0, 7, 5, 5])


@pytest.mark.parametrize(
    ("layers", "ids", "found"),
    [
        pytest.param(1, ORDER, [], id="positions are no vocabulary"),
        pytest.param(2, IDS, [("table", [])], id="two layers of a width score nothing"),
        pytest.param(1, IDS, [("table", ["layers.0"])], id="one layer does"),
    ],
)
def test_a_layer_that_is_as_wide_as_a_table_has_rows_need_not_score_them(rows_of, layers, ids, found):
    rows_of(Placed(layers, ids), used)
    assert [(row["name"], row["heads"]) for row in rows_of.session.lines["rows"]["vocabularies"]] == found


def rolled_out(model, x):
    """Many forwards that no backward follows."""
    for _ in range(3 * rows.MOST_HELD):
        model(x)
    return model(x).square().mean()


def recomputed(model, x):
    return torch.utils.checkpoint.checkpoint(model, x.requires_grad_(), use_reentrant=False).square().mean()


@pytest.mark.parametrize(
    ("loss", "before", "inside"), [(rolled_out, rows.MOST_HELD, set()), (recomputed, 2, {0}), (used, 2, set())]
)
def test_few_graphs_are_held_until_the_next_backward(rows_of, monkeypatch, loss, before, inside):
    """Of a model of two layers: before backward, and inside of it, where a recomputation calls them again."""
    held = {False: {0}, True: set()}
    noted = rows.RowComparison._note

    def note(self, *given):
        result = noted(self, *given)
        held[self._session.recorder.in_backward].add(len(self._made))
        return result

    monkeypatch.setattr(rows.RowComparison, "_note", note)
    rows_of(net(), loss)
    assert (max(held[False]), held[True]) == (before, inside)


def test_on_one_batch_again_and_again_a_count_that_stays_tells_nothing(rows_of):
    fixed = torch.randn(16, 8)
    found = rows_of(net(), lambda model, x: saturated(model, fixed))
    assert not {name: row for name, row in found.items() if row[0] is not None}


class Wrapped(nn.Linear):
    """As PEFT's: called Linear, with others in it."""

    def __init__(self):
        super().__init__(8, 8)
        self.base = nn.Linear(8, 8)

    def forward(self, x):
        return self.base(x)


Wrapped.__name__ = "Linear"


def test_a_layer_with_others_in_it_is_counted_once(rows_of):
    found = rows_of(nn.Sequential(Wrapped()), indexed)
    assert {name for name, row in found.items() if row[0] is not None} == {"0.base"}


def test_a_gradient_that_shows_no_numbers_ends_nothing(rows_of, monkeypatch):
    monkeypatch.setattr(rows.RowComparison, "_least", None, raising=False)
    monkeypatch.setattr(rows, "MOST_CALLS", "none")
    assert rows_of(net(), used) == {}


def test_positions_of_an_image_are_rows(rows_of):
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 3, 3, padding=1)

        def forward(self, x):
            return self.conv(x.reshape(-1, 1, 2, 4))

    found = rows_of(Images(), lambda model, x: model(x)[:, :, :1].square().mean())
    assert found["conv"][0] == 0.5


def test_positions_that_a_masked_loss_does_not_read_are_unused(rows_of):
    """A head over a vocabulary, asked of all tokens and trained on few."""
    found = rows_of(nn.Sequential(nn.Linear(1, 4)), lambda model, x: sparse(model(x[..., None])))
    assert found["0"][0] >= 0.8


def test_of_positions_of_a_convolution_most_may_be_unused(rows_of):
    """A detector learns from few of the positions that it looks at."""
    found = rows_of(nn.Sequential(nn.Conv1d(1, 4, 1)), lambda model, x: sparse(model(x[:, None]).transpose(1, 2)))
    assert found["0"][0] == 0.0


def sparse(output):
    """A tenth of the positions, drawn anew."""
    return output[torch.rand(output.shape[:2]) < 0.1].square().mean()


def last_of(count):
    """The last of 3 or 4 positions of `count` samples each, as a classifier of sequences reads it."""
    return lambda model, x: model(x[:count, : random.randint(3, 4), None])[:, -1].square().mean()


@pytest.mark.parametrize(("count", "is_known"), [(8, True), (7, False)])
def test_as_many_positions_are_used_in_samples_of_any_length(rows_of, count, is_known):
    random.seed(1)
    found = rows_of(nn.Sequential(nn.Linear(1, 4)), last_of(count))
    assert (0.6 < found["0"][0] < 0.8) if is_known else (found["0"][0] == 0.0)


TABLE = torch.randn(200, 8)


@pytest.mark.parametrize(
    ("few", "unused"),
    [(lambda: torch.arange(4), None), (lambda: torch.randint(200, (39,)), pytest.approx(0.82, abs=0.02))],
    ids=["the same rows each time", "others each time"],
)
def test_of_the_same_table_in_each_step_only_rows_that_change_tell(rows_of, few, unused):
    """A loss on the same few rows may be a mask of nodes that are labelled."""
    found = rows_of(net(), lambda model, x: model(TABLE)[few()].square().mean())
    assert (found["0"][0] if "0" in found else None) == unused


class Ranker(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout(dropout), nn.Linear(8, 4))

    def forward(self, x):
        return self.encoder(x)


def expanded(model, x):
    return model(x.repeat_interleave(3, dim=0)).square().mean()


def test_rows_that_come_several_times(rows_of):
    found = rows_of(Ranker(), expanded)
    assert found["encoder"] == found["Ranker"] == (None, pytest.approx(2 / 3))


def test_calls_with_other_rows_count_by_their_rows(rows_of):
    found = rows_of(Ranker(), lambda model, x: expanded(model, x) + used(model, x))
    assert found["encoder"] == (None, pytest.approx(0.5))


def test_with_dropout_the_repetitions_are_another_thing(rows_of):
    assert rows_of(Ranker(dropout=0.5), expanded)["encoder"] == (None, 0.0)


def test_rows_as_they_come_from_the_data_are_none(rows_of):
    assert rows_of(Ranker(), used)["encoder"] == (None, 0.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.arange(40.0).reshape(8, 5).repeat(2, 1), 8),
        (torch.arange(40).reshape(8, 5).repeat_interleave(3, dim=0), 16),
        (torch.cat([torch.arange(20.0).reshape(4, 5)] * 2 + [torch.ones(2, 5)] * 2), 7),
        (torch.cat([torch.arange(40.0).reshape(8, 5), torch.ones(2, 5)]), 0),
        (torch.arange(20.0).reshape(4, 5)[torch.tensor([0, 1, 1, 2, 2, 2, 3, 3, 0, 1, 2, 3, 3])], 9),
        (torch.cat([torch.arange(30.0).reshape(6, 5), torch.zeros(14, 5)]), 0),
        (torch.arange(30.0).reshape(6, 5)[torch.tensor([0, 0, 1, 2, 3, 4, 5, 5])], 0),
        (torch.ones(16, 5), 0),
        (torch.arange(16.0).reshape(8, 2).repeat(2, 1), None),
        (torch.arange(10.0).reshape(2, 5).repeat(2, 1), None),
        (torch.arange(8.0).repeat(2), None),
    ],
    ids=[
        "twice",
        "of whole numbers",
        "some more often",
        "two by chance",
        "candidates from few",
        "padding",
        "a few of them",
        "all equal",
        "short rows",
        "few rows",
        "flat",
    ],
)
def test_how_many_rows_are_repetitions(given, expected):
    assert repetitions(given, given * 2.0 + torch.rand(len(given), *[1] * (given.dim() - 1)) * 1e-6) == expected
    assert not repetitions(given, torch.randn(len(given), 3)), "the outputs differ"


class Encoder(nn.Module):
    def __init__(self, noise=0.0, rate=0.2, first=None, fails=False):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(rate), nn.Linear(8, 4), nn.BatchNorm1d(4))
        self.first = first or nn.Identity()
        self.noise, self.fails = noise, fails
        self.register_buffer("calls", torch.zeros(1))
        self.modes = []

    def forward(self, x, shift=None):
        self.modes.append(self.training)
        self.calls += 1
        if self.fails and not self.training:
            raise RuntimeError("no eval mode")
        y = self.layers(self.first(x if shift is None else x + shift))
        return y + self.noise * torch.randn_like(y) + 0.0 * self.calls


class Copies(nn.Module):
    def __init__(self, encoder, times=4, is_shifted=False):
        super().__init__()
        self.head = nn.Linear(8, 8)
        self.encoder, self.times, self.is_shifted = encoder, times, is_shifted

    def forward(self, x):
        shifts = (torch.rand(self.times * len(x), 1),) if self.is_shifted else ()
        return self.encoder(self.head(x).repeat_interleave(self.times, 0), *shifts)


def in_dropout(rows_of, model):
    rows_of(model, used)
    row = next(row for row in rows_of.session.lines["rows"]["rows"] if row["name"] == "encoder")
    return row["repeated"], row["repeated_in_dropout"]


@pytest.mark.parametrize(
    ("encoder", "times", "is_shifted", "repeated", "expected"),
    [
        pytest.param(Encoder(), 4, False, 0.0, 0.75, id="four times, with other masks"),
        pytest.param(Encoder(), 2, False, 0.0, 0.0, id="two views"),
        pytest.param(Encoder(rate=0.0), 4, False, 0.75, None, id="without dropout"),
        pytest.param(Encoder(noise=0.1), 4, False, 0.0, 0.0, id="noise of its own"),
        pytest.param(Encoder(), 4, True, 0.0, None, id="another input tells the copies apart"),
        pytest.param(Encoder(fails=True), 4, False, 0.0, None, id="it cannot be called so"),
        pytest.param(Encoder(first=nn.ReLU(inplace=True)), 4, False, 0.0, 0.75, id="it writes into its input"),
    ],
)
def test_rows_that_dropout_alone_tells_apart(rows_of, encoder, times, is_shifted, repeated, expected):
    assert in_dropout(rows_of, Copies(encoder, times, is_shifted)) == (repeated, expected)


def test_the_call_without_dropout_leaves_no_trace(rows_of):
    """A frozen BatchNorm stays in eval mode; buffers count the script's own calls alone; random numbers go on."""
    encoder = Encoder()
    encoder.layers[3].eval()
    assert in_dropout(rows_of, Copies(encoder)) == (0.0, 0.75)
    assert encoder.modes.count(False) == 3  # once in each step that was looked at
    assert int(encoder.calls) == encoder.modes.count(True)
    assert (encoder.training, encoder.layers[1].training, encoder.layers[3].training) == (True, True, False)
    given = torch.randn(8, 8)
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.rand(1), random.random()
    torch.manual_seed(3)
    random.seed(3)
    rows.without_dropout(encoder, lambda module, x: (torch.rand(5), random.random(), module(x))[2], (given,), {})
    assert (torch.rand(1), random.random()) == expected


def test_a_module_with_a_hook_of_the_scripts_is_not_called_again(rows_of):
    encoder = Encoder()
    encoder.register_forward_hook(lambda *_: None)
    assert in_dropout(rows_of, Copies(encoder)) == (0.0, None)


def test_what_is_generated_is_seen_at_the_line_that_calls_the_outermost_module(rows_of):
    """The layers inside get the same growing inputs."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 4), nn.Linear(4, 1))

        def forward(self, x):
            return self.inner(x)

    def loss(model, x):
        with torch.no_grad():
            for length in range(1, 9):
                model(x[:, :length, None])
        return model(x[..., None]).square().mean()

    rows_of(Reader(), loss)
    (row,) = rows_of.session.lines["rows"]["growing"]
    assert (row["line"], row["function"]) == (loss.__code__.co_firstlineno + 3, "loss")
    assert (row["elements"], row["needed"]) == (3 * 36, 3 * 8)
