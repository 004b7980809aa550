"""One file per command: add_arguments(parser), run(arguments) -> exit code. One is imported when it is named."""
