"""Notes as GitHub Flavored Markdown, for a repository or a pull request."""
