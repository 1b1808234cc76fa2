from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntax_builders import BOM, error_of, mutants, texts

from autotune.errors import UsageError
from autotune.syntax import shell

SAMPLE = """#!/bin/bash
# a launch script
export CUDA_VISIBLE_DEVICES=0,1 NAME="é run"  # two
LR=${LR:-1e-4}
MODEL='org/model'
BATCH=4; BATCH=8
OPTIONS="--wd 0.1 \\
  --model $MODEL"
ARGS=(
  --name "$NAME"  # of the run
  --lr $LR
)
ARGS+=(--bf16)
if [ -n "$1" ]; then EPOCHS=3; fi
for seed in 1 2; do
  OMP_NUM_THREADS=8 torchrun --nproc_per_node 2 train.py "${ARGS[@]}" $OPTIONS \\
    --seed $seed --out=$MODEL/x --batch "$BATCH" --epochs ${EPOCHS} >> log.txt 2>&1 &
done
cat <<EOF > config.yaml
don't ( $run
EOF
python -u eval.py && echo done | tee >(cat)
"""
FRAGMENTS = [
    "a",
    "X=",
    "X=1",
    "Y+=2",
    "$X",
    "${X}",
    "${X:-",
    "}",
    '"',
    "'",
    "`",
    "$(",
    "$((",
    "((",
    "(",
    ")",
    "\\",
    "\n",
]
FRAGMENTS += [
    " ",
    "; ",
    "&&",
    "|",
    "if ",
    "then ",
    "fi\n",
    "for i in ",
    "do ",
    "done\n",
    "case x in ",
    "a) ",
    ";;",
    "esac",
]
FRAGMENTS += [
    "<<E",
    "E\n",
    "> ",
    "<(",
    "é",
    "#c",
    "A=(",
    '"${A[@]}"',
    "export ",
    "[[ ",
    " ]]",
    "{ ",
    "$'",
    "\\\n",
    "\r\n",
]


def read(text: str) -> shell.ShellScript:
    return shell.read(text.encode(), "file")


def words(text: str) -> list[list[str | None]]:
    """The values of the words of each command."""
    return [[word.value for word in command.words] for command in read(text).commands]


def last(text: str) -> list[tuple[str | None, str]]:
    """Value and text of each word of the last command, but for the command itself."""
    return [(word.value, word.text) for word in read(text).commands[-1].words[1:]]


def check_places(data: bytes, script: shell.ShellScript) -> None:
    for command in script.commands:
        for word in (*command.words, *(word for _, word in command.variables)):
            assert data[word.span.start : word.span.end].decode() == word.text
            before = data[: word.span.start].decode("utf-8-sig")
            assert word.line == 1 + len(re.findall(r"\r\n|\n|\r", before))


@pytest.mark.parametrize("start", [b"", BOM])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_a_launch_command_is_read_with_its_variables(start: bytes, line_break: str) -> None:
    file = start + SAMPLE.replace("\n", line_break).encode()
    script = shell.read(file, "file")
    check_places(file, script)
    launch = next(command for command in script.commands if command.words[0].value == "torchrun")
    assert [word.value for word in launch.words] == [
        *("torchrun", "--nproc_per_node", "2", "train.py", "--name", "é run", "--lr", "1e-4", "--bf16"),
        *("--wd", "0.1", "--model", "org/model", "--seed", None, "--out=org/model/x"),
        *("--batch", None, "--epochs", None),
    ]
    variables = [("CUDA_VISIBLE_DEVICES", "0,1"), ("NAME", "é run"), ("OMP_NUM_THREADS", "8")]
    assert [(name, word.value) for name, word in launch.variables] == variables
    assert (launch.line, launch.end_line) == (16, 17)
    assert [command.words[0].value for command in script.commands] == ["[", "torchrun", "cat", "python", "echo", "tee"]


def test_a_variable_stands_where_its_value_is_written() -> None:
    (launch,) = (command for command in read(SAMPLE).commands if command.words[0].value == "torchrun")
    places = {word.value: (word.text, word.line) for word in launch.words}
    assert places["1e-4"] == ("1e-4", 4)
    assert places["é run"] == ("é run", 3)
    assert places["0.1"] == ("0.1", 7)
    assert places["org/model"] == ("org/model", 5)
    assert places["--out=org/model/x"] == ("--out=$MODEL/x", 17)
    assert places["2"] == ("2", 16)


def test_comments_are_kept() -> None:
    assert [(comment.line, comment.text, comment.is_own_line) for comment in read(SAMPLE).comments] == [
        (1, "!/bin/bash", True),
        (2, "a launch script", True),
        (3, "two", False),
        (10, "of the run", False),
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("X=1", "1"),
        ("X='a b'", "a b"),
        ("export X=1", "1"),
        ("readonly X=1", "1"),
        ("Y=1; X=$Y", "1"),
        ("X=${Y:-2}", "2"),
        ("X=1; X+=2", "12"),
        ("X=", ""),
        ("", None),
        ("X=1; X=2", None),
        ("X=1; unset X", None),
        ("X=1; read -r X", None),
        ("X=1; (( X++ ))", None),
        ("X=1; let X=2", None),
        ("X=1; a ${X:=2}", None),
        ("if a; then X=1; fi", None),
        ("while a; do X=1; done", None),
        ("for X in 1; do a; done", None),
        ("case a in b) X=1;; esac", None),
        ("f() { X=1; }", None),
        ("function f { X=1; }", None),
        ("(X=1)", None),
        ("a && X=1", None),
        ("a ||\n X=1", None),
        ("X=1 a", None),
        ("X+=1", None),
        ("X=$(date)", None),
        ("X=`date`", None),
        ("X=$1", None),
        ("X=${Y%a}", None),
        ("X=~/data", None),
        ("X=(1 2)", None),
        ("X[1]=1", None),
        ("Y=1; Y=2; X=${Y:-3}", None),
    ],
)
def test_a_variable_is_known_when_it_is_certainly_set_once(setting: str, value: str | None) -> None:
    assert last(f'{setting}\ncommand "$X"')[0][0] == value


def test_a_default_is_taken_of_what_the_script_does_not_set() -> None:
    assert last('c ${X:-16} ${Y-a$Z} "${V:-b c}"') == [("16", "16"), (None, "${Y-a$Z}"), ("b c", "b c")]
    assert last("f() { c ${X:-1}; }\nX=2\nf\nc ${X:-1}") == [("2", "2")]
    assert words("f() { c ${X:-1}; }\nX=2\nf")[0] == ["c", None]


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ('X=${1:-d.yaml}\nc "$X"', None, ["d.yaml"]),
        ('X=${1:-d.yaml}\nc "$X"', [], ["d.yaml"]),
        ('X=${1:-d.yaml}\nc "$X"', ["o.yaml"], ["o.yaml"]),
        ('X=${1-d}\nc "$X" "${2}" $3', ["1", "2 b", ""], ["1", "2 b"]),
        ('c $1 "$2"', None, [None, None]),
        ('c $1 "$2"', ["a"], ["a", ""]),
        ('c --x "$@"', None, ["--x", None]),
        ('c --x "$@" ${@}', ["a b", "c"], ["--x", "a b", "c", "a", "b", "c"]),
        ('c --x "$@"', [], ["--x"]),
        ('A=(--a 1)\nA+=("$@")\nc "${A[@]}"', ["--b", "2"], ["--a", "1", "--b", "2"]),
        ('shift\nc ${1:-d} "$@"', ["a"], [None, None]),
        ('set -- x\nc ${1:-d} "$@"', None, [None, None]),
        ("set -euo pipefail\nc ${1:-d}", None, ["d"]),
        ("set -e -o pipefail +x\nc ${1:-d}", None, ["d"]),
        ("set -e -- x\nc ${1:-d}", None, [None]),
        ("set -e x\nc ${1:-d}", None, [None]),
        ("set -o pipefail x\nc ${1:-d}", None, [None]),
        ("set -e $X\nc ${1:-d}", None, [None]),
        ("set - x\nc ${1:-d}", None, [None]),
        ('c "${1-d}" "${1:-d}" "${2-e}"', [""], ["", "d", "e"]),
        ('f() { c ${1:-d} "$@"; }\nf', ["a"], [None, None]),
        ("if a; then c ${1:-d}; fi", None, ["d"]),
    ],
)
def test_arguments_of_the_script(text: str, arguments: list[str] | None, expected: list[str | None]) -> None:
    commands = [one for one in shell.read(text.encode(), "file", arguments).commands if one.words[0].value == "c"]
    assert [word.value for word in commands[0].words[1:]] == expected


def test_an_argument_stands_in_no_file_and_its_default_does() -> None:
    text = b'X=${1:-4}\nc $X $2 "$2"'
    default, *typed = shell.read(text, "file", ["", "8"]).commands[0].words[1:]
    assert (default.is_typed, text[default.span.start : default.span.end]) == (False, b"4")
    assert [(one.is_typed, one.value) for one in typed] == [(True, "8"), (True, "8")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 'b c' \"d\"e\\ f", ["a", "b c", "de f"]),
        ("a b\\\n  c\\\nd", ["a", "b", "cd"]),
        ('a "b\\\nc" "\\$x \\d"', ["a", "bc", "$x \\d"]),
        ("a $'b' $\"c\" $ a$", ["a", "b", "c", "$", "a$"]),
        ("a 2>&1 >b <c &>d b <<< x", ["a", "b"]),
        ("a $'\\n' *.py {1..3} ~/x $((1 + 1)) $# <(b)", ["a", *[None] * 7]),
        ("a [0,1] x=y {b} a#b", ["a", "[0,1]", "x=y", "{b}", "a#b"]),
        ('a "$(b "c ) d" )" e', ["a", None, "e"]),
        ('X=""; a $X "$X" b', ["a", "", "b"]),
        ("X='b c'; a x$X$X", ["a", "xb", "cb", "c"]),
        ('X=("b c" d); a x"${X[@]}"y', ["a", "xb c", "dy"]),
        ('X=($Y d); a x"${X[@]}"y', ["a", None]),
        ('X=(b "" *.c); a ${X[@]}', ["a", "b", None]),
        ('declare -A X=([k]=v); a "${X[@]}"', ["a", None]),
        ("X=1 Y=2 a", ["a"]),
    ],
)
def test_words_are_cut_as_bash_does(text: str, expected: list[str | None]) -> None:
    assert words(text)[-1] == expected


@pytest.mark.parametrize(
    "text",
    [
        "if a; then b; elif c; then d; else e; fi",
        "while a; do b; done < x; until c; do d; done | e",
        "for i in x y; do a; done; for ((i=0; i<3; i++)); do b; done; for i\ndo c; done; { d; }; (e)",
        "case x in y|z) a;; (w) b ;& *) c;; esac; d; case x in\n esac; e",
        "f() { a; }; function g { b; }; function h() { c; }; [[ x < y && (z) ]] && d || e",
        "a & b | c |& d; ! time e",
        "a <<X; b <<-'Y' <<Z\nno\nX\nif\n\tY\n'\nZ\nc; d; e",
        "a # b; c\n#\nb;c\n\nd;\ne",
    ],
)
def test_every_command_is_found_wherever_it_stands(text: str) -> None:
    assert [command[0] for command in words(text)] == list("abcde")


@pytest.mark.parametrize(
    ("text", "scopes"),
    [
        ("a; (b; (c)); d", [(), (1,), (1, 2), ()]),
        ("{ a; }; f() { b; }; c", [(), (2,), ()]),
        ("if a; then b; elif c; then d; else e; fi", [(1,), (1,), (2,), (2,), (3,)]),
        ("case x in y) a;; z) b;; esac; c", [(1,), (2,), ()]),
        ("a && b; [ c ] && d && e\na || b; c", [(), (), (), (1,), (1,), (), (2,), ()]),
        ("a |\nb; c || { d; }; e", [(), (1,), (), (2,), ()]),
    ],
)
def test_a_command_knows_what_is_around_it(text: str, scopes: list[tuple[int, ...]]) -> None:
    assert [command.scope for command in read(text).commands] == scopes


@pytest.mark.parametrize("runs", ["source env.sh", ". ./env.sh", 'eval "$(settings)"', "if a; then source b; fi"])
def test_what_runs_other_text_may_set_any_variable(runs: str) -> None:
    before = "X=1; Y=(a); export Z=3"
    script = read(f'{before}\nc $X\n{runs}\nY+=(b)\nV=4\nc $X "${{Y[@]}}" ${{W:-2}} $V')
    found = [command for command in script.commands if command.words[0].value == "c"]
    assert [word.value for word in found[0].words] == ["c", "1"]
    assert [word.value for word in found[1].words] == ["c", None, None, "b", None, "4"]
    assert {name: word.value for name, word in found[1].variables} == {"Z": None}


def test_other_text_that_a_function_runs_may_run_at_any_time() -> None:
    assert words("f() { source env.sh; }\nX=1\nf\nc $X ${Y:-2}")[-1] == ["c", None, None]


@pytest.mark.parametrize("runs", ["source venv/bin/activate", 'source "$HOME/v/bin/activate" env', ". activate"])
def test_an_environment_sets_no_variable_of_the_project(runs: str) -> None:
    assert words(f"X=1\n{runs}\nc $X ${{Y:-2}}")[-1] == ["c", "1", "2"]


def test_a_command_gets_what_was_exported_before_it() -> None:
    script = read("A=1\nexport A B=2\na\nexport B=3 C\ndeclare -x D=4\nif x; then export E=5; fi\nF=6 b")
    found = {c.words[0].value: {name: word.value for name, word in c.variables} for c in script.commands}
    assert found["a"] == {"A": "1", "B": None}
    assert found["b"] == {"A": "1", "B": None, "D": "4", "E": None, "F": "6"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_words_are_those_that_bash_makes() -> None:
    show = 'torchrun() { printf "%s\\n" "$@"; }\nunset LR\nset -- ""\ncd /tmp\n'
    ending = SAMPLE.index("cat <<EOF")
    script = (show + SAMPLE[:ending]).replace(">> log.txt 2>&1 &", "")
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    (launch,) = (command for command in read(SAMPLE).commands if command.words[0].value == "torchrun")
    known = [word.value for word in launch.words[1:]]
    assert len(ran) == 2 * len(known) - 2  # two seeds; an empty EPOCHS is no word
    assert all(one in (None, other) for one, other in zip(known[:-1], ran, strict=False))


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a\n b 'c", "file:2:4", "a quote without an end"),
        ('a "$X', "file:1:3", "a quote without an end"),
        ("a $(b", "file:1:3", "'$(' without an end"),
        ("a ${X:-b", "file:1:3", "'${' without an end"),
        ("a ${X%b", "file:1:3", "'${' without an end"),
        ("a `b", "file:1:3", "'`' without an end"),
        ("X=(a", "file:1:3", "an array without an end"),
        ("X=(a; b)", "file:1:3", "an array without an end"),
        ("${a:-" * 1000, "file:1:506", "too deeply nested"),
        ("a;" * 500_000, "file:1:100001", "a script that is too long"),
        ("A=(x x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 30, "file:10:1", "more than 50000 words"),
    ],
)
def test_a_broken_script_is_an_error_with_its_place(text: str, where: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        read(text)
    assert (error.value.where, error.value.what) == (where, what)


def test_a_value_that_doubles_and_doubles_is_not_known() -> None:
    assert last("X=ab\n" + "X+=$X$X\n" * 60 + 'c "$X"') == [(None, '"$X"')]


@given(st.binary(max_size=30) | texts(FRAGMENTS).map(str.encode) | mutants(SAMPLE.encode()))
def test_any_bytes_are_read_or_refused_with_a_place(file: bytes) -> None:
    error_of(lambda: check_places(file, shell.read(file, "file")))


@pytest.mark.parametrize("words", ["-r -d ''", "-rd ''", '-d "" -r'])
def test_a_here_document_that_is_read_as_a_whole_is_a_value(words: str) -> None:
    text = f"BS=2\nread {words} ARGS <<EOF\ntrain.py \\\n  --batch $BS \\\n  --name $(hostname)\nEOF\npython $ARGS\n"
    (command,) = shell.read(text.encode(), "x.sh").commands
    found = [(word.value, word.line) for word in command.words]
    assert found == [("python", 7), ("train.py", 3), ("--batch", 4), ("2", 1), ("--name", 5), (None, 7)]


@pytest.mark.parametrize("line", ["read -r -d '' ARGS <<'EOF'", "read ARGS <<EOF", "read -r -d x ARGS <<EOF"])
def test_other_here_documents_are_not_filled_in(line: str) -> None:
    text = f"BS=2\n{line}\n--batch $BS\nEOF\npython train.py $ARGS\n"
    words = [word.value for command in shell.read(text.encode(), "x.sh").commands for word in command.words]
    assert words[-1] == ("$BS" if "'EOF'" in line else None)
