"""The detectors: each states facts about one training script."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autotune.model.evidence import Fact
from autotune.scan.facts import (
    accelerate_loops,
    accumulation,
    base_models,
    contrastive_loss,
    dataset_maps,
    dataset_styles,
    datasets,
    decoding,
    distributed,
    environment_variables,
    epochs,
    evaluation_grad,
    lightning_logs,
    loaders,
    loss_weighting,
    one_process_saves,
    passes_for_training,
    precision,
    process_setup,
    retained_losses,
    step_path,
    streams,
    swallowed_errors,
    tf32,
    torch_switches,
)
from autotune.scan.script.analysis import ScriptAnalysis

Detector = Callable[[ScriptAnalysis], Iterator[Fact]]

DETECTORS: tuple[Detector, ...] = (
    loaders.facts,
    datasets.facts,
    dataset_styles.facts,
    streams.facts,
    decoding.facts,
    dataset_maps.facts,
    step_path.facts,
    lightning_logs.facts,
    accumulation.facts,
    epochs.facts,
    precision.facts,
    base_models.facts,
    tf32.facts,
    distributed.facts,
    loss_weighting.facts,
    accelerate_loops.facts,
    contrastive_loss.facts,
    torch_switches.facts,
    retained_losses.facts,
    evaluation_grad.facts,
    swallowed_errors.facts,
    one_process_saves.facts,
    passes_for_training.facts,
    environment_variables.facts,
    process_setup.facts,
)
"""Every detector; of two facts of one name and subject the first counts."""
