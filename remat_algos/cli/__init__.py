"""The program `remat`; each of its commands is a module in commands/."""
