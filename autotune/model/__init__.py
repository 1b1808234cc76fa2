"""Every record that crosses a stage boundary: a frozen msgspec Struct, without input or output."""
