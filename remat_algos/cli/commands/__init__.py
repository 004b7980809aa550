"""One file per command: add_arguments(parser), run(arguments) -> exit code. Only the named one is imported."""
