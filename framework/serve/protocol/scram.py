"""SCRAM-SHA-256 (RFC 7677), the server's side: the client proves that it has the token without sending it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from skyband.framework.serve.protocol.wire import Refused

MECHANISM: Final = "SCRAM-SHA-256"
ROUNDS: Final = 4096
"""PostgreSQL's own number. A generated token has 256 bits: more rounds would add nothing."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """The server's verifier for the token."""

    salt: bytes
    stored_key: bytes
    server_key: bytes


def verifier(token: str) -> Verifier:
    """Return what proves ``token``, with a fresh salt."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, ROUNDS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(salt, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


class Exchange:
    """One authentication: the client's first message, the server's challenge, the client's proof."""

    def __init__(self, known: Verifier) -> None:
        self._known, self._nonce = known, base64.b64encode(secrets.token_bytes(18)).decode()
        self._first = self._challenge = self._header = ""

    @property
    def begun(self) -> bool:
        """Whether the challenge was made."""
        return bool(self._challenge)

    def challenge(self, first: bytes) -> bytes:
        """Return the server's challenge to the client's first message. Raises Refused 28000 for what is no such message."""
        text = _text(first)
        flag, _, rest = text.partition(",")
        name, _, bare = rest.partition(",")
        attributes = _attributes(bare)
        if flag not in ("n", "y") or name or not attributes.get("r"):
            raise Refused("28000", "the authentication message is not that of SCRAM-SHA-256 without channel binding")
        self._header, self._first = f"{flag},,", bare
        self._nonce = attributes["r"] + self._nonce
        self._challenge = f"r={self._nonce},s={base64.b64encode(self._known.salt).decode()},i={ROUNDS}"
        return self._challenge.encode()

    def confirm(self, final: bytes) -> bytes | None:
        """Return the server's own proof, None if the client's is wrong. The comparison takes the same time wherever they differ."""
        text = _text(final)
        without, _, proof = text.rpartition(",p=")
        attributes = _attributes(without)
        signed = f"{self._first},{self._challenge},{without}".encode()
        try:
            sent = base64.b64decode(proof, validate=True)
        except ValueError:
            return None
        signature = hmac.digest(self._known.stored_key, signed, "sha256")
        key = bytes(a ^ b for a, b in zip(sent, signature, strict=False))
        right = hmac.compare_digest(hashlib.sha256(key).digest(), self._known.stored_key) and len(sent) == len(signature)
        same = attributes.get("r") == self._nonce and attributes.get("c") == base64.b64encode(self._header.encode()).decode()
        if not (right and same):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._known.server_key, signed, "sha256"))


def _text(raw: bytes) -> str:
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError as e:
        raise Refused("28000", "the authentication message is not text") from e


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
