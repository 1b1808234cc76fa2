"""A notebook's cells as lines of one file: a kernel compiles each cell under a name of its own.

With this each is compiled under the name of the notebook, with the lines that `syntax/notebook.py` gives it, so that
stacks, call sites and samples name the file that a person edits. `inspect.getsource` finds the same lines.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from typing import Any

    from .shapes import NotebookRequest

MODULE = "IPython.core.compilerop"

UNNAMED = ("<timed exec>", "<timed eval>", "<unknown>")
"""Names under which magics compile the cell that they are given: %%time."""


class Cells:
    """The cells that are still to be run, by their text. `line` is that of the cell that is being compiled;
    `is_below_magic` says that a magic has parsed what stands below it."""

    def __init__(self, notebook: NotebookRequest) -> None:
        self.path, self.script = notebook["path"], notebook["script"].splitlines(keepends=True)
        self.line, self.is_below_magic = 0, False
        self.lines: dict[str, list[int]] = {}
        for cell in notebook["cells"]:
            text, line = cell["source"], cell["line"]
            self._add(text, line)
            while text.lstrip().startswith("%%"):  # its magic compiles what stands below it
                text = text.partition("\n")[2]
                line += 1
                self._add(text, line)

    def _add(self, text: str, line: int) -> None:
        if text.strip():
            self.lines.setdefault(text.strip(), []).append(line)

    def find(self, text: str) -> int:
        """The line of the cell with this text, 0 for another text; of equal cells the next one, and then the last."""
        lines = self.lines.get(text.strip(), [])
        return lines.pop(0) if len(lines) > 1 else lines[0] if lines else 0


def hook(notebook: NotebookRequest, module: Any) -> None:
    """Change the compiler of IPython, of which `module` has the class."""
    import ast
    import linecache

    cells = Cells(notebook)
    compiler = module.CachingCompiler
    cache, parse, call = compiler.cache, compiler.ast_parse, compiler.__call__

    def own_cache(self: Any, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        name: str = cache(self, transformed_code, number, raw_code)
        cells.line = cells.find(transformed_code if raw_code is None else raw_code)
        if not cells.line:
            return name
        linecache.cache[cells.path] = (sum(map(len, cells.script)), None, cells.script, cells.path)
        return cells.path

    def own_parse(self: Any, source: str, filename: str = "<unknown>", symbol: str = "exec") -> ast.AST:
        tree: ast.AST = parse(self, source, filename, symbol)
        line = cells.line if filename == cells.path else cells.find(source) if filename in UNNAMED else 0
        cells.is_below_magic = filename in UNNAMED and line > 0
        return ast.increment_lineno(tree, line - 1) if line else tree

    def own_call(self: Any, source: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        is_cell = filename in UNNAMED and cells.is_below_magic and isinstance(source, ast.AST)
        return call(self, source, cells.path if is_cell else filename, *args, **kwargs)

    compiler.cache, compiler.ast_parse, compiler.__call__ = own_cache, own_parse, own_call
