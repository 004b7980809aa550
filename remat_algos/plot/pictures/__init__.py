"""Pictures: `NAME` draws on axes, `NAME_text` in characters; listed in plot/__init__.pyi and plot/characters.py."""
