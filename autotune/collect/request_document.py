"""The object of request.json, which the probe reads: which keys it has, and what each says.

`tests/schemas.py` makes `request.schema.json` from it. Only the type checker and that script import this module.
"""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta


class IsolateSettings(TypedDict):
    """What keeps writes away from the user's files (isolation.py)."""

    layer: Literal["kernel", "hooks"]
    protected: list[str]
    """Folders whose files stay as they are."""

    exempt: list[str]
    """Folders below them that may be written."""

    run_id: str
    run_dir: str
    mount_points: list[str]


class OverrideArguments(TypedDict):
    """Arguments that one call of the script gets in place of its own."""

    at: str
    """What is called: loader (DataLoader), optimizer, threads (torch.set_num_threads), or the `object` of a class of a
    framework."""

    file: str
    first_line: int
    last_line: int
    arguments: dict[str, bool | int | float | str | None]


class HookedClass(TypedDict):
    """A class of a trainer framework, or functions of its module, hooked when that was imported (`Hook` in
    catalogue/frameworks.py)."""

    module: str
    type: str
    object: str
    after: str
    fields: list[str]
    read: str
    times: dict[str, Literal["checkpoint", "evaluation", "logging"]]
    override: Literal["", "arguments", "fields"]
    resume: str


class LibraryEntry(TypedDict):
    """Functions of a library by which a cause of start-up time is known (catalogue/startup.toml)."""

    cause: str
    module: str
    """Or one below it."""

    functions: list[str]
    """"*": all of them."""

    arguments: list[str]
    """Local variables of these functions, "name" or "name.attribute", that are recorded."""

    waits: str
    """What they do while they call nothing."""


class WindowRequest(TypedDict):
    """The steps to measure; null lets the probe choose."""

    warmup: int | None
    steps: int | None
    default_steps: int
    """The least that the probe chooses."""

    min_s: float
    """The least length of a window that the probe chooses."""

    multiple: Annotated[int, Meta(ge=1)] | None
    """As many steps as divide by it; null: by those of an epoch where the probe sees that these are short."""

    after: int
    """Steps that pass before the warm-up."""

    time_limit_s: float
    """From the first optimizer step on."""


class PretendedCard(TypedDict):
    """The card that `fit` pretends to the script."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]


class FitRequest(TypedDict):
    """The fake steps that are wanted beside those with the script's own batches."""

    card: PretendedCard
    batches: list[int]
    """Samples of a micro-batch."""

    lengths: list[int]
    """Tokens of a sequence."""


class NotebookCell(TypedDict):
    """A code cell, and the line of the script with which it starts."""

    source: str
    line: Annotated[int, Meta(ge=1)]


class NotebookRequest(TypedDict):
    """A notebook that a kernel runs: the script that its cells make (syntax/notebook.py), whose lines are recorded."""

    path: str
    script: str
    cells: list[NotebookCell]


class RequestDocument(TypedDict):
    """What the parent asks of the probe."""

    schema: Literal[1]
    run_dir: str
    inherited: list[str]
    """Variables of launchers (RANK, SLURM_...) that autotune was started with: they number autotune's own processes."""

    isolate: IsolateSettings | None
    keep_going: bool
    """The hooks are taken off after the window, and training goes on to its end."""

    what_ifs: bool
    what_if_limit_s: float
    save_at: int | None
    """A step after which a trainer that the probe knows saves once, into the run folder."""

    resume_from: str | None
    """Such a save, to go on from."""

    overrides: list[OverrideArguments]
    frameworks: list[HookedClass]
    libraries: dict[str, str]
    """Modules of the trainer frameworks -> their distributions, whose versions are recorded."""

    loader_files: list[str]
    """Parts of the names of their files that stand between the user's call of DataLoader and torch's."""

    startup_entries: list[LibraryEntry]
    fit: FitRequest | None
    """Fake steps instead of a window: nothing is trained."""

    notebook: NotebookRequest | None
    window: WindowRequest
