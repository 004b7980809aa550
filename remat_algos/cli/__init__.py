"""The command `remat`; each command is a module in commands/."""
