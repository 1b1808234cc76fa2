"""Rules and facts in, findings and recommendations out. Pure but for reading the rule files."""

from autotune.engine.evaluate import decline, evaluate
from autotune.engine.evidence import join, observed_over
from autotune.engine.load import load_rules
from autotune.engine.recommend import by_gain, ranked, recommend

__all__ = ["by_gain", "decline", "evaluate", "join", "load_rules", "observed_over", "ranked", "recommend"]
