"""The Hugging Face hub: everything that would change it is replaced by an answer that says it worked."""

from __future__ import annotations

from ..patches import standing_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches
    from ..shapes import AfterImport, Function
    from .isolated import Isolated

# fmt: off
WRITING = (
    "create_", "upload_", "delete_", "move_", "update_", "add_", "merge_", "change_", "super_squash",
    "permanently_", "preupload_", "restart_", "pause_", "resume_", "request_space", "set_space", "duplicate_",
    "comment_", "edit_", "hide_", "rename_", "accept_", "reject_", "cancel_", "grant_", "enable_", "disable_",
    "scale_to_zero", "run_job", "run_uv_job", "rerun_job", "suspend_", "trigger_", "sync_", "copy_files",
    "batch_bucket", "unlike",
)
# fmt: on
"""How the names of the methods of HfApi begin that change something; a later release's new methods fit too."""

COMMITS = ("create_commit", "upload_file", "upload_folder", "delete_file", "delete_files", "delete_folder")
NO_COMMIT = "0" * 40


def callbacks(patches: Patches, isolated: Isolated) -> AfterImport:
    """The hub's API, and the git repositories that older releases push from."""

    def on_api(module: Any) -> None:
        block_api(module, patches, isolated)

    def on_repository(module: Any) -> None:
        for name in ("git_push", "push_to_hub", "git_commit", "git_add", "git_tag", "git_pull"):
            if hasattr(module.Repository, name):
                patches.set(module.Repository, name, _blocked(isolated, f"huggingface_hub: Repository.{name}"))

    return {"huggingface_hub.hf_api": on_api, "huggingface_hub.repository": on_repository}


def block_api(module: Any, patches: Patches, isolated: Isolated) -> None:
    """Replace the writing methods of `module.HfApi`, and the functions of the module that are bound to them."""
    for name in [name for name in vars(module.HfApi) if name.startswith(WRITING)]:
        original = getattr(module.HfApi, name)
        if callable(original):
            patches.set(module.HfApi, name, _method(module, isolated, name, original))
            if hasattr(module, name) and hasattr(module, "api"):
                patches.set(module, name, getattr(module.api, name))


def _method(module: Any, isolated: Isolated, name: str, original: Function) -> Function:
    def blocked(self: Any, *args: Any, **kwargs: Any) -> Any:
        isolated.blocked(f"huggingface_hub: {name}")
        in_background = kwargs.pop("run_as_future", False)
        answer = _answer(module, getattr(self, "endpoint", None), name, args, kwargs)
        return _done(answer) if in_background else answer

    return standing_for(original, blocked)


def _answer(module: Any, endpoint: str | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A RepoUrl for create_repo, a CommitInfo for what commits, None for the rest, which return nothing of use."""
    if name != "create_repo" and name not in COMMITS:
        return None
    positional = args[0] if name == "create_repo" and args else "repo"
    repo = str(kwargs.get("repo_id") or positional)
    repo = repo if "/" in repo else f"user/{repo}"
    prefix = {"dataset": "datasets/", "space": "spaces/"}.get(str(kwargs.get("repo_type")), "")
    url = f"{endpoint or module.constants.ENDPOINT}/{prefix}{repo}"
    if name == "create_repo":
        return module.RepoUrl(url)
    message = str(kwargs.get("commit_message") or "commit")
    return module.CommitInfo(
        commit_url=f"{url}/commit/{NO_COMMIT}", commit_message=message, commit_description="", oid=NO_COMMIT
    )


def _done(answer: Any) -> Any:
    from concurrent.futures import Future

    future: Future[Any] = Future()
    future.set_result(answer)
    return future


def _blocked(isolated: Isolated, what: str) -> Function:
    def blocked(*args: Any, **kwargs: Any) -> None:
        isolated.blocked(what)

    return blocked
