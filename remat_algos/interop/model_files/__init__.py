"""Model files that other libraries read, one module per format; a library is imported when a file is read."""
