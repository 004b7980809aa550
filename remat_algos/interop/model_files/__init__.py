"""Model files that other libraries read, one format per file; libraries are imported when a file is read."""
