"""What can go wrong in retrieval.

RetrievalError
├── ParseFailed      the file can't be read as what it is (encrypted, damaged, unknown, too big)
├── IndexNotReady    the tenant's index can't be opened now
├── IndexMismatch    stored vectors and encoder disagree; names both sides
├── VersionsMoved    an index version came while passages were made; make them again
├── IndexUnsound     FAISS returned what was not asked for; the search is refused
├── ModelMissing     a model is not in the cache; says the command that fetches it
└── RerankFailed     the reranker did not answer; the stage falls back and says so
"""


class RetrievalError(Exception):
    """Root of the errors of this package."""


class ParseFailed(RetrievalError):
    """The file can't be turned into text; the message says what was found and needed."""


class IndexNotReady(RetrievalError):
    """The tenant's index can't be opened now."""


class IndexMismatch(RetrievalError):
    """Stored vectors and the encoder disagree in model, width or normalisation."""


class VersionsMoved(RetrievalError):
    """There is an index version for which passages were not encoded; encode them again."""


class IndexUnsound(RetrievalError):
    """A guard around FAISS found something that was not asked for."""


class ModelMissing(RetrievalError):
    """A model is not in the cache; the message says the command that fetches it."""


class RerankFailed(RetrievalError):
    """The reranker did not answer in time or at all."""
