"""AccessScope to cache salt: who may share cached prefixes of an engine."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Literal

import numpy as np

from acl.types import AccessScope

Sharing = Literal["scope", "user", "off"]

_SECRET_BYTES = 32


def cache_salt(
    scope: AccessScope,
    generations: Mapping[int, int],
    secret: bytes,
    sharing: Sharing = "scope",
    nonce: str = "",
) -> str:
    """Name the group of requests that may share cached prefixes with this one.

    Two scopes get the same salt only when incarnation, tenant and readable classes with
    their generations are all equal ("scope"), and the principal too ("user"); "off" needs a
    fresh nonce and shares nothing. Each field is length-prefixed, so no two different scopes
    hash the same bytes.

    Args:
        generations: of the classes in the scope that passages have left; the rest are 0.
        secret: at least 32 bytes.

    Returns: 43 characters of URL-safe base64 (256 bits, no padding): what every engine takes.
    Raises: ValueError if the secret is too short, or "off" comes without a nonce.
    Source: vLLM, "Automatic Prefix Caching", cache isolation; CVE-2025-46570.
    """
    if len(secret) < _SECRET_BYTES:
        raise ValueError(f"salt secret has {len(secret)} bytes, needs {_SECRET_BYTES}")
    if sharing == "off" and not nonce:
        raise ValueError("sharing off needs a nonce for each request")
    classes = np.asarray(scope.classes.to_array(), dtype="<u4")
    raised = np.asarray(sorted(generations.items()), dtype="<u8").reshape(-1, 2)
    fields = [
        sharing.encode(),
        scope.counters.incarnation.encode(),
        scope.tenant.encode(),
        classes.tobytes(),
        raised.tobytes(),
        str(scope.principal.id).encode() if sharing != "scope" else b"",
        nonce.encode(),
    ]
    mac = hmac.new(secret, digestmod="sha256")
    for each in fields:
        mac.update(len(each).to_bytes(8, "big"))
        mac.update(each)
    return urlsafe_b64encode(mac.digest()).rstrip(b"=").decode()
