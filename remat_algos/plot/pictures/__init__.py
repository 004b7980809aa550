"""Pictures: `NAME` draws on axes, `NAME_text` returns text; plot/__init__.pyi and plot/characters.py list them."""
