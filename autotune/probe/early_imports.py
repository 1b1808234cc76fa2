"""Modules of the standard library that the probe needs before the script's folder is on sys.path."""

import sys


def import_early(name: str):
    """Module `name`, left in sys.modules only if it was there: a user's own module of that name must still win."""
    known = name in sys.modules
    module = __import__(name)
    if not known:
        del sys.modules[name]
    return module
