"""Every record that crosses a stage boundary: frozen, without input or output, without third-party imports."""
