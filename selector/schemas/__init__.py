"""JSON Schemas of every file that a person may write and of what the product writes, generated from the models.

``python -m selector.schemas`` writes them into the schemas folder, with ``--check`` it says which have drifted. Beside
the keywords of JSON Schema they hold `errorMessage`, which editors show, and `x-fault` and `x-fact`, from which
`selector.structure` takes its words: the fault that a failing keyword stands for, and the fact whose value it is.
`x-rules` marks what follows from the shipped rules alone and may be otherwise under an overlay.
"""
