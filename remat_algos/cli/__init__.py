"""The command `remat`, with one file per command in commands/."""
