"""What a report says, as a document without a format: markdown/ and html/ write it."""
