"""One module per command, imported when needed; it defines add_arguments(parser) and run(arguments) -> exit code."""
