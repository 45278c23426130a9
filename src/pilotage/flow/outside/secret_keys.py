"""The keys that encrypt secrets of payloads: a file of the server's home, apart from the store."""

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotage.model.documents.serialization import to_json
from pilotage.store.people.secrets import Encrypted, Secrets

FILE = "secrets.key"
"""Name of the file in the home: a key a line. The first one encrypts, all decrypt."""

MOST_KEYS = 100
"""Most keys of the file."""


class KeyMissing(Exception):
    """The server cannot encrypt or decrypt; the message has the reason and a remedy."""


class SecretSpoilt(Exception):
    """A stored secret was changed, so its key cannot decrypt it; the message names it."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a file, each with its digest; the first one encrypts."""

    by_digest: dict[str, bytes]

    @property
    def newest(self) -> str:
        """Return the digest of the key that encrypts."""
        return next(iter(self.by_digest))

    def encrypt(self, owner: str, vo: str, name: str, value: str) -> Encrypted:
        """Encrypt a secret together with its owner: a row moved to another person is worthless."""
        from cryptography.fernet import Fernet

        text = to_json([owner, vo, name, value])
        ciphertext = Fernet(self.by_digest[self.newest]).encrypt(text).decode()
        return Encrypted(owner, vo, name, ciphertext, self.newest)

    def decrypt(self, secret: Encrypted) -> str:
        """Return the value. Raises ``KeyMissing``, ``SecretSpoilt``."""
        from cryptography.fernet import Fernet, InvalidToken

        key = self.by_digest.get(secret.key)
        if key is None:
            raise KeyMissing(
                f"no key in the server's {FILE} is the one that encrypted the secret {secret.name}"
            )
        try:
            text = Fernet(key).decrypt(secret.ciphertext)
        except InvalidToken:
            raise SecretSpoilt(f"the stored secret {secret.name} is damaged") from None
        owner, vo, name, value = json.loads(text)
        if (owner, vo, name) != (secret.owner, secret.vo, secret.name):
            raise SecretSpoilt(f"the stored secret {secret.name} was encrypted for another name or person")
        return str(value)


class SecretKeys:
    """The file of keys at ``path``; None: there is no home, and so no secrets."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> Keys:
        """Return the keys. Raises ``KeyMissing``."""
        if self._path is None:
            raise KeyMissing("this server has no home to keep the key of secrets in")
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise KeyMissing(f"there is no {self._path}") from None
        except OSError as error:
            raise KeyMissing(f"{self._path} cannot be read: {error.strerror}") from None
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise KeyMissing(f"others may read {self._path}: chmod 600 {self._path}")
            lines = file.read(MOST_KEYS * 64).split()
        return _checked(lines, self._path)

    def digests(self) -> frozenset[str]:
        """Return the digests of the keys; none if the file cannot be read."""
        try:
            return frozenset(self.read().by_digest)
        except KeyMissing:
            return frozenset()

    def read_or_make(self, needed: Callable[[], frozenset[str]]) -> Keys:
        """Return the keys, and make the first one if nothing was encrypted yet.

        ``needed`` returns the digests of the keys of all stored secrets. Raises ``KeyMissing``.
        """
        try:
            keys = self.read()
        except KeyMissing:
            if self._path is None or self._path.exists() or needed():
                raise
            self._write([_new_key()], replace=False)
            keys = self.read()
        if lacking := needed() - keys.by_digest.keys():
            raise KeyMissing(
                f"{self._path} lacks {len(lacking)} of the keys that encrypted the stored secrets: copy the "
                "file from the server that has them; if they are lost: pilotage secrets rotate --drop-lost"
            )
        return keys

    def drop_lost(self, secrets: Secrets) -> tuple[Encrypted, ...]:
        """Remove the secrets that no key of the file decrypts, and return them. Raises ``KeyMissing``.

        A file that is there, but cannot be read, may hold their keys: then nothing is removed.
        """
        keys = self.read().by_digest if self._path is None or self._path.exists() else {}
        lost = tuple(secret for secret in secrets.everything() if secret.key not in keys)
        for secret in lost:
            secrets.remove(secret.owner, secret.vo, secret.name)
        return lost

    def rotate(self, secrets: Secrets) -> int:
        """Encrypt all secrets with a new key, and drop the old ones. Return how many there are.

        Both stay in the file until all is encrypted again, so nothing is lost in between. Raises
        ``KeyMissing``, OSError.
        """
        old = self.read_or_make(secrets.keys)
        self._write([_new_key(), *old.by_digest.values()], replace=True)
        keys = self.read()
        while pending := [secret for secret in secrets.everything() if secret.key != keys.newest]:
            for secret in pending:
                new = keys.encrypt(secret.owner, secret.vo, secret.name, keys.decrypt(secret))
                secrets.encrypt_again(secret, new)
        self._write([keys.by_digest[keys.newest]], replace=True)
        return len(secrets.everything())

    def _write(self, keys: Sequence[bytes], replace: bool) -> None:
        path = self._path
        if path is None:
            raise KeyMissing("there is no home")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One file for each thread: otherwise one thread could change the file after another made it the key.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(key + b"\n" for key in keys)
                file.flush()
                # A secret that is stored before its key would be lost with a crash.
                os.fsync(descriptor)
            if replace:
                draft.replace(path)
            else:
                # Link instead of renaming: if another process was faster, its key stays.
                try:
                    os.link(draft, path)
                except FileExistsError:
                    return
        finally:
            draft.unlink(missing_ok=True)


def _new_key() -> bytes:
    from cryptography.fernet import Fernet

    return Fernet.generate_key()


def _checked(lines: Sequence[bytes], path: Path) -> Keys:
    from cryptography.fernet import Fernet

    if not lines:
        raise KeyMissing(f"{path} holds no key")
    try:
        for line in lines:
            Fernet(line)
    except ValueError:
        raise KeyMissing(f"{path} holds a line that is no key") from None
    return Keys({hashlib.sha256(line).hexdigest()[:16]: line for line in lines})
