"""One file per format; read.py and write.py choose among them."""
