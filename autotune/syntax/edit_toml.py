"""Edits of TOML files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

from autotune.model.source import Entry, Path, Scalar, Splice
from autotune.syntax import toml
from autotune.syntax.edit_effect import confirm, room, spliced
from autotune.syntax.edit_members import Group, appended
from autotune.syntax.edit_style import decimal, example, indent, integer, is_same, line_break, line_end
from autotune.syntax.text import Text, decode
from autotune.syntax.toml_scan import Scan

_BARE = re.compile(r"[A-Za-z0-9_-]+")
