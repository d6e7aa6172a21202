"""Decisions over HTTP, with the words of the command line; needs the extra `serve`, and neither torch nor a GPU."""
