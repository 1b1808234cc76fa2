"""What the probe observes in torch and in the trainer frameworks. A new hook is a module here and a line below."""

from . import calls, data, fetches, frameworks, model, optimizer, override

IN_WORKERS = (fetches,)
"""`install(session)` of each patches torch in every process, those of DataLoader workers too."""

IN_TRAINING = (data, model, optimizer, calls, override)
"""`install(session)` of each patches torch in the training process."""

AFTER_IMPORT = (frameworks, override)
"""`on_import(session, module)` of each gets every module of FRAMEWORKS, in the training process."""
