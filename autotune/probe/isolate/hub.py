"""The Hugging Face hub: everything that would change it is replaced by an answer that says it worked."""

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


def callbacks(patches, isolated) -> dict:
    """The hub's API, and the git repositories that older releases push from."""

    def on_api(module) -> None:
        block_api(module, patches, isolated)

    def on_repository(module) -> None:
        for name in ("git_push", "push_to_hub", "git_commit", "git_add", "git_tag", "git_pull"):
            if hasattr(module.Repository, name):
                patches.set(module.Repository, name, _blocked(isolated, f"huggingface_hub: Repository.{name}"))

    return {"huggingface_hub.hf_api": on_api, "huggingface_hub.repository": on_repository}


def block_api(module, patches, isolated) -> None:
    """Replace the writing methods of `module.HfApi`, and the functions of the module that are bound to them."""
    for name in [name for name in vars(module.HfApi) if name.startswith(WRITING)]:
        original = getattr(module.HfApi, name)
        if callable(original):
            patches.set(module.HfApi, name, _method(module, isolated, name, original))
            if hasattr(module, name) and hasattr(module, "api"):
                patches.set(module, name, getattr(module.api, name))


def _method(module, isolated, name: str, original):
    def blocked(self, *args, **kwargs):
        isolated.blocked(f"huggingface_hub: {name}")
        in_background = kwargs.pop("run_as_future", False)
        answer = _answer(module, getattr(self, "endpoint", None), name, args, kwargs)
        return _done(answer) if in_background else answer

    blocked.__name__ = name
    blocked.__doc__ = original.__doc__
    blocked.__wrapped__ = original
    return blocked


def _answer(module, endpoint, name: str, args, kwargs):
    """A RepoUrl for create_repo, a CommitInfo for what commits, None for the rest, which return nothing of use."""
    if name != "create_repo" and name not in COMMITS:
        return None
    positional = args[0] if name == "create_repo" and args else "repo"
    repo = str(kwargs.get("repo_id") or positional)
    repo = repo if "/" in repo else f"user/{repo}"
    prefix = {"dataset": "datasets/", "space": "spaces/"}.get(kwargs.get("repo_type"), "")
    url = f"{endpoint or module.constants.ENDPOINT}/{prefix}{repo}"
    if name == "create_repo":
        return module.RepoUrl(url)
    message = str(kwargs.get("commit_message") or "commit")
    return module.CommitInfo(
        commit_url=f"{url}/commit/{NO_COMMIT}", commit_message=message, commit_description="", oid=NO_COMMIT
    )


def _done(answer):
    from concurrent.futures import Future

    future = Future()
    future.set_result(answer)
    return future


def _blocked(isolated, what: str):
    def blocked(*args, **kwargs):
        isolated.blocked(what)

    return blocked
