"""Prints the insights of gpuprof's latest run by the names of their rules, which its own report leaves out.

python gpuprof_codes.py DB: one JSON object {"steps", "insights": [[rule, severity, title], ...]}, in its order.
"""

import json
import sqlite3
import sys

from gpuprof import insights


def main(path: str) -> None:
    connection = sqlite3.connect(path)
    (run,) = connection.execute("SELECT MAX(id) FROM runs").fetchone()
    context = insights._build_ctx(connection, run)
    context.db_path = path
    found = [(rule.__name__.removeprefix("rule_"), rule(context)) for rule in insights.RULES]
    rows = [[name, one["severity"], one["title"]] for name, one in found if one]
    print(json.dumps({"steps": context.n_steps, "insights": rows}))


if __name__ == "__main__":
    main(sys.argv[1])
