"""Files of models that other libraries read, one format a file; the library is imported when a file is read."""
