"""The verb `tune`; its plot is in tune.py.

space and points (what may be tried), surrogate (what is tried next), study (where trials are stored), trial and
realisation (one run of a candidate), winner and ablation (what is left of the best), confirmation (A/B, by `verify`).
"""
