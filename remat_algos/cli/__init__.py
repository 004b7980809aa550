"""The command `remat`: one file per command in commands/."""
