"""Other ways to search under permissions, each in a process and environment of its own.

`python -m benchmarks.peers NAME FOLDER` loads vectors.npy, classes.npy and questions.npz from
the folder, asks each question and writes NAME.json there. It imports nothing of the product.
"""
