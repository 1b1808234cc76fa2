from __future__ import annotations

import pytest
from build import LIBRARY, MS, Script, batches, facts_of, fetches, loader, recording, sample, steps, what_if
from msgspec.structs import replace

from autotune.derive import derive, lengths
from autotune.derive.loader import most_workers, workers_needed
from autotune.derive.summary_statistics import mean_interval, median_interval, most_common, quantile


def train(**fields):
    return facts_of("loader#train", **fields)


def test_what_a_batch_costs_leaves_out_the_first_of_each_process():
    rows = fetches([500, 10, 30], cpu_ms=5, collate_ms=4) + fetches([700, 20], cpu_ms=5, collate_ms=4, pid=2)
    facts = train(script=steps(4), fetches=rows, batches=batches([(4, 8)]))
    assert facts["loader.batch_ms"] == 20.0
    assert facts["loader.batch_cpu_share"] == 0.25
    assert facts["loader.collate_share"] == 0.2
    assert facts["loader.batch_bytes"] == 2 * 8 * 8
    assert (facts["loader.wait_ms"], facts["loader.wait_share"]) == (10.0, 10 / 65)


@pytest.mark.parametrize(("queued_ms", "demand"), [(None, 0.25), (0, 0.25), (10, 0.5), (15, 1.0)])
def test_the_queue_for_a_cpu_is_no_wait_for_storage(queued_ms, demand):
    queued_ns = None if queued_ms is None else queued_ms * MS
    rows = [replace(row, queued_ns=queued_ns) for row in fetches([500, 20, 20, 20], cpu_ms=5)]
    facts = train(script=steps(4), fetches=rows, limits={"cpus_per_rank": 1.0})
    assert facts["loader.batch_cpu_share"] == 0.25
    assert facts["loader.cpu_demand_share"] == demand
    assert (facts["loader.workers_needed"] > 1) is (demand < 0.3)


def test_one_batch_per_process_says_nothing_of_a_steady_one():
    assert "loader.batch_ms" not in train(script=steps(3), fetches=fetches([10]))


@pytest.mark.parametrize(
    ("batch_ms", "cpu_share", "compute", "cpus", "expected"),
    [
        pytest.param(90, 1.0, 30, 16.0, 4, id="ceil(3) + 1"),
        pytest.param(91, 1.0, 30, 16.0, 5, id="just above"),
        pytest.param(90, 1.0, 30, None, 4, id="no bound known"),
        pytest.param(90, 1.0, 30, 4.0, 3, id="a core is left for training"),
        pytest.param(90, 1.0, 30, 2.0, 1, id="two cores: one worker"),
        pytest.param(90, 1.0, 30, 0.5, 1, id="never none"),
        pytest.param(90, 0.3, 30, 2.0, 1, id="at the limit it is CPU-bound"),
        pytest.param(90, 0.29, 30, 2.0, 4, id="waiting workers need no core"),
        pytest.param(9000, 0.1, 30, 2.0, 16, id="at most 16"),
        pytest.param(90, None, 30, 2.0, 4, id="unknown CPU share"),
        pytest.param(None, 1.0, 30, 2.0, None, id="unknown batch"),
        pytest.param(90, 1.0, None, 2.0, None, id="unknown compute"),
        pytest.param(90, 1.0, 0, 2.0, None, id="no compute"),
    ],
)
def test_workers_needed(batch_ms, cpu_share, compute, cpus, expected):
    assert workers_needed(batch_ms, compute, most_workers(cpu_share, cpus), {}) == expected


@pytest.mark.parametrize(
    ("cpu_share", "cpus", "trained", "expected"),
    [
        pytest.param(1.0, 2.0, 66.0, 2, id="2 x 100 of every 166 ms: 1.2 times as fast as one"),
        pytest.param(1.0, 2.0, 67.0, 1, id="just not"),
        pytest.param(0.83, 2.0, 40.0, 2, id="it waits for the rest"),
        pytest.param(1.0, 4.0, 11.0, 4, id="training hardly needs the fourth"),
        pytest.param(1.0, 4.0, 12.0, 3, id="it needs some of it"),
        pytest.param(1.0, 8.0, 0.0, 7, id="an eighth cannot bring a fifth more"),
        pytest.param(1.0, 1.9, 0.0, 1, id="there is no second core"),
        pytest.param(1.0, 2.0, None, 1, id="what training takes is unknown"),
    ],
)
def test_the_last_core_has_a_worker_where_training_hardly_needs_it(cpu_share, cpus, trained, expected):
    assert most_workers(cpu_share, cpus, 100.0, trained) == expected


@pytest.mark.parametrize(
    ("device", "replayed", "expected"),
    [
        pytest.param("cpu", None, 1, id="two threads compute as long as a batch takes: both cores are busy"),
        pytest.param("cpu", 4, 2, id="calm steps are short"),
        pytest.param("cuda", None, 1, id="one thread waits for the device as long as that"),
        pytest.param("cuda", 30, 1, id="a replay that does not wait for the device says nothing of it"),
    ],
)
def test_room_for_workers_is_what_training_leaves(device, replayed, expected):
    replay = [] if replayed is None else [what_if("replay", {}, step_ns=[replayed * MS] * 3)]
    facts = train(
        script=steps(6),
        fetches=fetches([50] * 4, cpu_ms=50),
        device={"type": device},
        what_ifs=tuple(replay),
        limits={"cpus_per_rank": 2.0},
    )
    assert facts["loader.workers_needed"] == expected


@pytest.mark.parametrize(
    ("alone", "most", "expected"),
    [
        pytest.param({0: 20, 1: 40, 2: 29, 4: 15}, 16, 2, id="the fewest that keep up"),
        pytest.param({1: 35, 2: 30}, 16, 4, id="just not: the arithmetic's four are more than were tried"),
        pytest.param({1: 90, 2: 50, 4: 60}, 16, 2, id="none keeps up, and more are worse: the best"),
        pytest.param(
            {1: 90, 2: 70, 4: 45, 8: 40}, 16, 8, id="the largest is the best, and the arithmetic asks for fewer"
        ),
        pytest.param({1: 90, 2: 45, 4: 20}, 3, 3, id="four would keep up, but there is room for three"),
        pytest.param({0: 5}, 16, 4, id="without workers nothing overlaps"),
    ],
)
def test_workers_needed_where_the_loader_ran_alone(alone, most, expected):
    assert workers_needed(90, 30, most, alone) == expected


def test_workers_that_were_tried_need_no_recorded_batch():
    assert workers_needed(None, 30, 16, {1: 40, 2: 50}) == 1
    assert workers_needed(None, None, 16, {1: 40}) is None


def ran_alone(workers, *ms, owner=0, outcome="completed"):
    result = {"batch_ns": [each * MS for each in ms], "start_ns": MS, "cpu_ns": MS}
    return what_if("loader_alone", {"loader": owner, "num_workers": workers}, outcome, **result)


def test_a_loader_that_ran_alone():
    tried = (
        ran_alone(0, 60, 60, 60),
        # One batch was ready beside the first of all; the last round is not whole.
        ran_alone(2, 0, 70, 0, 70, 0, 70),
        ran_alone(4, 0, 0),
        ran_alone(1, 9, 9, 9, owner=3),
    )
    # 55 ms of compute per batch: 35 ms a batch with two workers keep up.
    facts = train(script=steps(4), what_ifs=tried, fetches=fetches([1, 60, 60]))
    assert (facts["loader.best_workers"], facts["loader.workers_needed"], facts["loader.alone_batch_ms"]) == (
        2,
        2,
        35.0,
    )
    failed = what_if("loader_alone", {"loader": 0, "num_workers": 2}, "failed", error="TypeError")
    facts = train(script=steps(4), what_ifs=(failed,), fetches=fetches([1, 60, 60]))
    assert facts["loader.workers_needed"] == 3
    assert not {"loader.best_workers", "loader.alone_batch_ms"} & set(facts)


def test_of_one_number_of_workers_none_is_the_best():
    """Where nobody waits for workers, the loader is tried without them alone: for what fills the preparation."""
    facts = train(script=steps(4), what_ifs=(ran_alone(0, 60, 60, 60),), fetches=fetches([1, 60, 60]))
    assert facts["loader.serial_ms"] == 60
    assert "loader.best_workers" not in facts


def test_a_second_loader_that_is_trained_on_knows_its_workers_too():
    script = Script()
    for _ in range(4):
        script.fetch(3, loader=1)
        script.step()
    rows = fetches([1, 120, 120], loader=1)
    facts = facts_of("loader#1", script=script, loaders=(loader(0), loader(1)), fetches=rows)
    assert (facts["loader.is_train"], facts["loader.batches_per_step"]) == (True, 1.0)
    assert facts["loader.workers_needed"] == 4


def test_workers_needed_leaves_saves_and_evaluations_out_of_compute():
    script = Script()
    for _ in range(3):
        script.step(micros=2)
        script.run("checkpoint", 1000)
    script.step(micros=2)
    rows = fetches([1, 105, 105], cpu_ms=100)
    # 105 ms of compute for two batches: 52.5 ms each.
    facts = train(script=script, fetches=rows, limits={"cpus_per_rank": 8.0})
    assert facts["loader.workers_needed"] == 3


def test_epochs_and_worker_start():
    script = Script()
    for _ in range(3):
        script.run("iter", 90, 0)
        script.fetch(120)
        script.micro()
        script.update()
        script.step()
    facts = train(script=script, loaders=(loader(0, arguments={"num_workers": 2}, num_batches=40),))
    assert facts["loader.num_epochs_seen"] == 3
    # 90 + 120 ms less the median fetch: of 10, 10, 120 in each epoch.
    assert facts["loader.worker_start_s"] == 0.2
    mean_s = (3 * (90 + 120 + 60 + 5 + 65) - 275) / 5 / 1e3
    per_step = 7 / 5
    assert facts["loader.epoch_start_share"] == pytest.approx(0.2 / (0.2 + 40 / per_step * mean_s))
    assert "loader.worker_start_s" not in train(script=script)


def test_a_wrapped_loader_is_the_users_own_with_the_wrappers_times():
    script = steps(4, loader=1)
    rows = (
        loader(0, num_batches=None),
        loader(1, wraps=0, site=LIBRARY, num_batches=50, arguments={"batch_size": None}),
    )
    facts = train(script=script, loaders=rows, fetches=fetches([1, 20], loader=1))
    assert (facts["loader.num_batches"], facts["loader.wait_ms"], facts["loader.batch_ms"]) == (50, 10.0, 20.0)
    assert facts_of("loader#1", script=script, loaders=rows) == {}


TOKENIZER = "/lib/transformers/tokenization_utils_base.py"


def _alone(count: int):
    samples = [{"phase": "fetch", "leaf_file": TOKENIZER, "count": count}]
    return (what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[], samples=samples),)


@pytest.mark.parametrize(
    ("samples", "what_ifs", "workers", "expected"),
    [
        pytest.param([(TOKENIZER, 15), ("/lib/PIL/ImageFile.py", 5)], (), 0, (0.75, 0.25), id="in the main process"),
        pytest.param([("/lib/json/decoder.py", 10), ("/x.py", 10)], (), 0, (0.0, 0.5), id="json"),
        pytest.param([(TOKENIZER, 19)], (), 0, (None, None), id="too few samples"),
        pytest.param([(TOKENIZER, 90)], (), 2, (None, None), id="with workers the main process only waits"),
        pytest.param([], _alone(40), 2, (1.0, 0.0), id="from the what-if"),
        pytest.param([("/x.py", 50)], _alone(40), 0, (1.0, 0.0), id="the what-if is finer"),
        pytest.param([("/x.py", 50)], _alone(19), 0, (0.0, 0.0), id="too short a what-if"),
    ],
)
def test_tokenising_and_decoding(samples, what_ifs, workers, expected):
    rows = tuple(sample("fetch", count, leaf=leaf) for leaf, count in samples)
    facts = train(
        script=steps(3),
        samples=(*rows, sample("other", 100, leaf=TOKENIZER)),
        what_ifs=what_ifs,
        loaders=(loader(0, arguments={"num_workers": workers}),),
    )
    assert (facts.get("loader.tokenize_share"), facts.get("loader.decode_share")) == expected


@pytest.mark.parametrize(("is_own", "share"), [(True, 0.5), (None, 0.5), (False, 0.3)])
def test_a_librarys_collate_function_pads_and_does_not_tokenise(is_own, share):
    rows = [
        {"phase": "fetch", "leaf_file": file, "leaf_function": "f", "count": 20} for file in (TOKENIZER, "/lib/x.py")
    ]
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[], samples=rows)
    own = {} if is_own is None else {"has_own_collate": is_own}
    facts = train(
        script=steps(3), what_ifs=(alone,), fetches=fetches([10] * 9, collate_ms=2), loaders=(loader(0, **own),)
    )
    assert facts["loader.collate_share"] == 0.2
    assert facts["loader.tokenize_share"] == pytest.approx(share)
    assert facts["loader.repeated_share"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("file", "function", "share"),
    [
        ("/lib/PIL/Image.py", "open", 1.0),
        ("/lib/PIL/Image.py", "convert", 1.0),
        ("/lib/PIL/Image.py", "transform", 0.0),
        ("/lib/PIL/ImageEnhance.py", "enhance", 0.0),
        ("/lib/PIL/JpegImagePlugin.py", "load", 1.0),
        ("/lib/PIL/ImageFile.py", "load", 1.0),
        ("/home/me/Image.py", "open", 0.0),
    ],
)
def test_changing_an_image_is_not_decoding_it(file, function, share):
    rows = [{"phase": "fetch", "leaf_file": file, "leaf_function": function, "count": 40}]
    alone = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[], samples=rows)
    assert train(script=steps(3), what_ifs=(alone,))["loader.decode_share"] == share


@pytest.mark.parametrize(("io", "expected"), [(None, None), ({"read_bytes": 0}, 0), ({"read_bytes": 600}, 200)])
def test_bytes_read_from_disk(io, expected):
    assert train(script=steps(4), io=io).get("loader.read_bytes_per_step") == expected


def test_lengths():
    facts = train(script=steps(3), batches=batches([(2, 4), (4, 4), (1, 3), (3, 3)], width=6))
    assert facts["loader.num_lengths"] == 8
    assert (facts["loader.len_p50"], facts["loader.len_max"], facts["loader.width"]) == (3, 4, 6)
    assert facts["loader.at_limit_share"] == 3 / 8
    assert facts["loader.pad_share"] == pytest.approx(1 - 24 / 48)
    assert facts["loader.dynamic_pad_share"] == pytest.approx(1 - 24 / 28)
    assert facts["loader.is_static_padding"] is True
    assert facts["loader.num_shapes"] == 1
    assert facts["loader.len_cv"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        pytest.param([(3, 5), (4, 8), (2, 2), (8, 8)], None, False, id="padded to the longest"),
        pytest.param([(30, 50)] * 4, 128, True, id="one width, never filled"),
        pytest.param([(30, 50)] * 3, 128, None, id="three batches say nothing"),
        pytest.param([(128, 50)] * 4, 128, False, id="one width because each batch has a cut sample"),
        pytest.param([(128, 50)] * 3 + [(30, 50)], 128, True, id="a quarter of the batches is not filled"),
        pytest.param([(128, 50)] * 4 + [(30, 50)], 128, False, id="less than a quarter"),
        pytest.param([(60, 57)] * 4, 64, False, id="rounded to a multiple"),
    ],
)
def test_static_padding(rows, width, expected):
    assert lengths.is_static(batches(rows, width)) is expected


def test_grouping_by_length_removes_most_padding_of_two_kinds_of_samples():
    mixed = [10, 100] * 64
    assert lengths.pad_share([mixed[i : i + 8] for i in range(0, 128, 8)]) == pytest.approx(0.45)
    assert lengths.grouped_pad_share(mixed, 8, 100_000) < 0.02
    assert lengths.grouped_pad_share(mixed, 8, 64) > 0.05
    assert lengths.grouped_pad_share(mixed, 8, None) == lengths.grouped_pad_share(mixed, 8, 100_000)
    assert lengths.grouped_pad_share(mixed[:31], 8, None) is None
    assert lengths.grouped_pad_share([7] * 32, 8, None) == 0.0


def test_unknown_lengths_are_absent():
    rows = tuple(row.__class__(0, 0, 2, 8, ((2, 4),)) for row in batches([(1, 2), (3, 4)]))
    facts = train(script=steps(3), batches=rows)
    assert facts["loader.num_shapes"] == 1
    assert not [name for name in facts if "pad" in name or "len" in name]


def test_batches_prepared_after_the_window_are_left_out():
    script = steps(3)
    late = fetches([1, 20])
    moved = tuple(type(row)(row.loader, row.pid, script.now * MS + 1, *_rest(row)) for row in late)
    derived = derive([recording(script, fetches=moved)])
    assert "loader.batch_ms" not in {fact.name for fact in derived.facts}


def _rest(row):
    return (row.wall_ns, row.cpu_ns, row.collate_wall_ns, row.collate_cpu_ns, row.num_samples, row.in_main)


@pytest.mark.parametrize(
    ("values", "q", "expected"), [([3.0], 0.9, 3.0), ([1, 2, 3, 4], 0.5, 2.5), ([4, 1, 3, 2], 1.0, 4)]
)
def test_quantile(values, q, expected):
    assert quantile(values, q) == expected


def test_intervals_hold_the_middle_and_are_repeatable():
    values = [10.0, 12.0, 11.0, 30.0, 9.0, 10.0, 12.0, 11.0]
    low, high = mean_interval(values)
    assert low < sum(values) / 8 < high
    assert mean_interval(values) == (low, high)
    assert median_interval([5, 5, 5, 5]) == (5.0, 5.0)
    assert mean_interval([1, 2]) is None
    assert median_interval([1, 2]) is None


def test_most_common_takes_the_first_on_a_tie():
    assert most_common([2, 1, 2, 1]) == (2, 0.5)
    assert most_common([]) is None


@pytest.mark.parametrize(
    ("device", "replayed", "preparing", "steps", "share"),
    [
        pytest.param("cpu", 3, 7, 4, 0.7, id="steps on batches that are there are much shorter"),
        pytest.param("cpu", 3, 1, 4, 0.3, id="no more than preparing takes"),
        pytest.param("cpu", 3, None, 4, 0.2, id="what preparing takes was not seen"),
        pytest.param("cpu", 7, 7, 4, 0.2, id="no more than noise"),
        pytest.param("cuda", 3, 7, 4, 0.2, id="a replay that does not wait for the device says nothing of it"),
        pytest.param("cpu", None, 7, 4, 0.2, id="none was replayed"),
        pytest.param("cpu", 3, 7, 3, 0.2, id="too few steps say nothing of their noise"),
    ],
)
def test_what_batches_cost_beyond_the_wait(device, replayed, preparing, steps, share):
    script = Script()
    for _ in range(steps):
        script.fetch(2)
        script.forward(8)
        script.run("backward", 0)
        script.update(0)
    replay = [] if replayed is None else [what_if("replay", {}, step_ns=[replayed * MS] * 3)]
    rows = () if preparing is None else fetches([preparing] * 3)
    facts = train(script=script, device={"type": device}, what_ifs=tuple(replay), fetches=rows)
    assert facts["loader.wait_share"] == pytest.approx(0.2)
    assert facts["loader.input_share"] == pytest.approx(share)
