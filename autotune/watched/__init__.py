"""The verb `watch`: what runs under watch say of themselves, and a command started under it."""
