"""One module per command, with add_arguments(parser) and run(arguments) -> exit code; imported when it is used."""
