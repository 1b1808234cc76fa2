"""Notes as one HTML file: no script, nothing loaded, pictures as inline SVG."""
