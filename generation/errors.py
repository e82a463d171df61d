"""What can go wrong in generation.

GenerationError
├── EngineDown      the engine can't be reached, died, or answered with an error
├── EngineBusy      the engine refused for load; may be tried again
└── PromptTooLong   prompt and answer do not fit the engine's context
"""


class GenerationError(Exception):
    """Root of the errors of this package."""


class EngineDown(GenerationError):
    """The engine can't be reached, died in the middle, or answered with an error."""


class EngineBusy(GenerationError):
    """The engine refused for load."""


class PromptTooLong(GenerationError):
    """Prompt and answer do not fit the engine's context; says both numbers."""
