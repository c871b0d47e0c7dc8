"""The certificate and key of a server that listens on the network."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tau_trainer.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate and key, in PEM. Clients need no certificate."""

    certificate: bytes
    """The server's certificate, followed by its chain, if any."""
    key: bytes = field(repr=False)


def read_tls(certificate: Path | None, key: Path | None) -> Tls | None:
    """The two files, checked to belong together; None if they are not given.

    Raises SettingsError if a file cannot be read, is not PEM, is password-protected, or is of another pair.
    """
    if certificate is None or key is None:
        return None
    certificate, key = certificate.expanduser(), key.expanduser()
    try:
        pair = Tls(certificate.read_bytes(), key.read_bytes())
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: _refuse_password(key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"--tls-key {key} is not the key of --tls-cert {certificate}; give its own") from error
        raise SettingsError(
            f"--tls-cert {certificate} and --tls-key {key} cannot be used ({error.reason or 'not PEM'}); "
            "give a certificate and its key in PEM form"
        ) from error
    except OSError as error:
        flag = "--tls-cert" if error.filename == str(certificate) else "--tls-key"
        raise SettingsError(f"{flag} {error.filename} cannot be read: {error.strerror}; check the path") from error
    return pair


def _refuse_password(key: Path) -> NoReturn:
    raise SettingsError(f"--tls-key {key} has a password; write it without one: openssl pkey -in {key} -out FILE")
