"""What can go wrong in the flows.

PipelineError
├── Overloaded        too many requests are waiting; says after how many seconds to come back
├── LedgerFull        what is planned does not fit into the memory that is left; says both
├── EvidenceRevoked   what an answer rests on may no longer be read; the answer stops
├── AskRefused        the question itself is not acceptable: empty, too long, out of range
├── PlanRefused       what is planned can't be worked out, or does not fit; says what would
├── RulesRefused      an access file or list names what does not exist, or contradicts itself
└── SettingsRefused   a setting is missing or wrong
"""


class PipelineError(Exception):
    """Root of the errors of this package."""


class Overloaded(PipelineError):
    """Too many requests are waiting."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LedgerFull(PipelineError):
    """A planned allocation does not fit; says what was needed and what is free."""


class EvidenceRevoked(PipelineError):
    """What an answer rests on may no longer be read by who asked."""


class AskRefused(PipelineError):
    """The question is not acceptable; says what was found and what is needed."""


class PlanRefused(PipelineError):
    """A plan lacks a figure or does not fit; says the numbers and what would make it fit."""


class RulesRefused(PipelineError):
    """An access file is wrong; says where. Nothing was ingested."""


class SettingsRefused(PipelineError):
    """A setting is missing or wrong; says which and what is needed."""
