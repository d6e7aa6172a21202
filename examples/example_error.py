"""What is wrong with what an example was asked for."""


class ExampleError(ValueError):
    """One sentence for whoever called the example; it ends with exit status 2 and no traceback."""
