"""What can go wrong with rights.

AclError
├── UnknownPrincipal    no such person, group or service, or the key is not valid (any more)
├── UnknownResource     no such tenant, collection or document, or not for this caller
├── NotAllowed          the caller sees the resource but may not do this to it
├── RightsUnavailable   rights can't be evaluated now; nobody reads anything until they can
├── AclRefused          a write that would break a rule of the rights model
├── StorageBusy         other writes held the database too long; nothing was written
└── StorageFull         the disk is full or can't be written; nothing unacknowledged is kept
"""


class AclError(Exception):
    """Root of the errors of this package."""


class UnknownPrincipal(AclError):
    """The credentials, or the name of a principal, stand for nobody."""


class UnknownResource(AclError):
    """The resource does not exist, or the caller may not know whether it does."""


class NotAllowed(AclError):
    """The caller may know the resource but lacks the right for this action."""


class RightsUnavailable(AclError):
    """Rights could not be evaluated; the answer is an error, never a partial list."""


class AclRefused(AclError):
    """The change would break a rule of the rights model; nothing was written."""


class StorageBusy(AclError):
    """Other writes held the database for too long; nothing was written, come back."""


class StorageFull(AclError):
    """The disk is full or can't be written; what was acknowledged before is kept."""
