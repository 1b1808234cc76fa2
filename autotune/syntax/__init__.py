"""Reads files of one syntax each, from bytes to values with their exact places. Nothing is run or imported."""
