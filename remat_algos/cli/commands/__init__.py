"""One file per command: HELP, add_arguments(parser), run(arguments) -> exit code."""
