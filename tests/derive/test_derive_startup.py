"""Start-up by cause: what the parts sum to, and what of them rules may count on."""

from __future__ import annotations

import pytest
from build import facts, facts_of, recording, steps

from autotune.derive import derive, startup
from autotune.model.recording import StartUp, StartUpTime

S = 10**9


def time(cause, seconds, detail="", file="/p/train.py", line=3, function="main", cpu=None, **arguments):
    cpu_s = seconds if cpu is None else cpu
    given = {name.replace("__", "."): value for name, value in arguments.items()}
    return StartUpTime(cause, detail, file, line, function, round(seconds * S), round(cpu_s * S), given)


def mapping(seconds, num_proc=None, cached=True, data="abc", **given):
    arguments = {"num_proc": num_proc, "load_from_cache_file": cached, "self._fingerprint": data}
    return StartUpTime(
        "map",
        "",
        "/p/prepare.py",
        given.get("line", 41),
        "main",
        round(seconds * S),
        round(given.get("cpu", seconds) * S),
        arguments,
    )


def start(*rows, process=-3.0, since=-2.0, until=100.0, unhashed=False):
    began = None if process is None else round(process * S)
    return StartUp(began, round(since * S), round(until * S), rows, unhashed)


def parts(one, ended=None):
    return [(part.cause, round(part.seconds, 3)) for part in startup.parts(one, ended)]


def test_the_parts_sum_to_the_time_until_the_first_step():
    one = start(time("code", 5.0), time("import", 4.0, "torch"))
    assert parts(one, 10 * S) == [("code", 5.0), ("import", 4.0), ("rest", 3.0), ("python", 1.0)]
    assert startup.total_s(one, 10 * S) == 13.0


def test_without_a_first_step_they_sum_to_what_was_sampled():
    one = start(time("code", 7.0), process=None, since=0.0, until=7.0)
    assert parts(one) == [("code", 7.0)]
    assert startup.total_s(one, None) == 7.0


def test_a_function_is_one_part_at_its_longest_line_and_a_package_one_with_what_it_imports():
    rows = (
        time("code", 1.0, function="parse", line=7, detail="json"),
        time("code", 2.0, function="parse", line=8, detail="json"),
        time("code", 0.5, function="other", line=20),
        time("import", 1.0, "transformers", line=1),
        time("import", 3.0, "transformers > tensorflow", line=1),
        time("import", 0.05, "transformers > yaml", line=2),
    )
    by_cause = {(part.cause, part.of or part.function): part for part in startup.parts(start(*rows), 0)}
    parse, package = by_cause["code", "parse"], by_cause["import", "transformers"]
    assert (parse.seconds, parse.line, parse.within) == (3.0, 8, (("json", 3.0),))
    assert (package.seconds, package.line, package.within) == (4.05, 1, (("tensorflow", 3.0),))
    assert by_cause["code", "other"].seconds == 0.5


@pytest.mark.parametrize(("num_proc", "processes"), [(None, 1), (0, 1), (1, 1), (4, 4)])
def test_a_map_says_its_processes_and_its_cache(num_proc, processes):
    part = startup.parts(start(mapping(9.0, num_proc, cached=False)), 0)[0]
    assert (part.num_processes, part.reads_cache) == (processes, False)


def of(*rows, cpus=4.0, **given):
    found = facts_of(script=steps(3, forward=5), startup=start(*rows, **given), limits={"cpus_per_rank": cpus})
    return {name.removeprefix("startup."): value for name, value in found.items() if name.startswith("startup.")}


def test_an_older_recording_has_no_facts():
    assert not [name for name in facts_of() if name.startswith("startup.")]


def test_a_start_without_maps_has_none_and_says_so():
    found = of(time("code", 5.0))
    assert (found["map_s"], found["uncached_map_s"], found["single_map_s"], found["request_s"]) == (0, 0, 0, 0)
    assert not {"map_at", "import_package", "request_at"} & found.keys()
    assert found["unhashed_map"] is False


def test_imports_are_counted_with_the_longest_package():
    found = of(time("import", 4.0, "torch", cpu=1.0), time("import", 5.0, "transformers > torch", cpu=2.0))
    assert (found["import_s"], found["import_cpu_s"]) == (9.0, 3.0)
    assert (found["import_package"], found["import_package_s"]) == ("transformers", 5.0)


def test_maps_are_counted_by_what_could_be_saved():
    found = of(mapping(8.0, cached=False, line=10), mapping(30.0, num_proc=4, cpu=0.5), mapping(4.0, cached=False))
    assert (found["map_s"], found["map_at"]) == (42.0, "prepare.py:41")
    assert (found["uncached_map_s"], found["uncached_map_at"]) == (12.0, "prepare.py:10")
    assert (found["single_map_s"], found["parallel_map_saves_s"]) == (12.0, 9.0)


@pytest.mark.parametrize(("cpu", "single"), [(12.0, 10.0), (12.1, 0.0), (3.0, 10.0)])
def test_a_map_whose_tokenizer_has_threads_of_its_own_is_not_single(cpu, single):
    assert of(mapping(10.0, cpu=cpu))["single_map_s"] == single


def test_a_map_whose_arguments_are_not_known_is_not_counted_as_single():
    assert of(time("map", 10.0))["single_map_s"] == 0


@pytest.mark.parametrize(("cpus", "saved"), [(1.0, 0.0), (1.9, 0.0), (2.0, 5.0), (0.5, 0.0), (None, None)])
def test_what_more_processes_save_at_most(cpus, saved):
    assert of(mapping(10.0), cpus=cpus).get("parallel_map_saves_s") == saved


def test_the_waits_between_tries_are_a_part_of_the_requests():
    found = of(time("download", 7.0, line=12), time("download", 5.0, "waits before another try", line=12))
    assert (found["request_s"], found["request_wait_s"], found["request_at"]) == (12.0, 5.0, "train.py:12")


def test_of_the_scripts_own_code_the_longest_function_counts():
    found = of(
        time("code", 6.0, function="parse", line=7, cpu=5.0),
        time("code", 6.5, function="parse", line=8, cpu=6.0),
        time("code", 9.0, function="draw", line=30),
    )
    assert (found["code_s"], found["code_cpu_s"], found["code_at"]) == (12.5, 11.0, "train.py:8")
    assert found["code_function"] == "parse"


def ranks(*starts, world_size=None):
    made = [
        recording(
            steps(3, forward=5),
            process={"rank": rank, "world_size": world_size or len(starts), "local_world_size": len(starts)},
            startup=one,
        )
        for rank, one in enumerate(starts)
    ]
    found = facts(derive(made))
    return found.get("startup.repeated_map_s"), found.get("startup.num_mapping_ranks")


def test_the_same_map_of_several_ranks_is_repeated_work():
    assert ranks(start(mapping(20.0)), start(mapping(10.0))) == (20.0, 2)


@pytest.mark.parametrize(
    "other",
    [
        start(mapping(9.9)),  # it read the result
        start(mapping(20.0, data="another part")),
        start(mapping(20.0, line=50)),
        start(time("ranks", 20.0)),
    ],
)
def test_a_rank_that_waits_or_maps_its_own_part_repeats_nothing(other):
    assert ranks(start(mapping(20.0)), other) == (0, 1)


def test_data_without_a_fingerprint_is_not_known_to_be_the_same():
    assert ranks(start(mapping(20.0, data=None)), start(mapping(20.0, data=None))) == (0, 1)


def test_with_a_rank_missing_nothing_is_known_of_repeated_work():
    assert ranks(start(mapping(20.0)), None) == (None, None)
    assert ranks(start(mapping(20.0)), start(mapping(20.0)), world_size=4) == (None, None)


def test_one_process_repeats_nothing():
    assert ranks(start(mapping(20.0))) == (0, 1)
