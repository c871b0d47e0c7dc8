"""The files of a TLS server: what is wrong with them is one sentence, told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.bridge.tls import read_tls
from tau_trainer.errors import SettingsError
from tests.bridge.conftest import DATA

CERTIFICATE, KEY = DATA / "certificate.pem", DATA / "key.pem"


def test_a_pair_is_read_and_its_key_never_shown() -> None:
    pair = read_tls(CERTIFICATE, KEY)
    assert pair is not None
    assert (pair.certificate, pair.key) == (CERTIFICATE.read_bytes(), KEY.read_bytes())
    assert "PRIVATE" not in repr(pair)
    assert read_tls(None, None) is None


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(DATA))
    monkeypatch.setenv("USERPROFILE", str(DATA))
    assert read_tls(Path("~/certificate.pem"), Path("~/key.pem")) == read_tls(CERTIFICATE, KEY)


@pytest.mark.parametrize(
    ("certificate", "key", "sentence"),
    [
        (DATA / "none.pem", KEY, "^--tls-cert .*none.pem cannot be read: No such file or directory; check the path$"),
        (CERTIFICATE, DATA / "none.pem", "^--tls-key .*none.pem cannot be read: No such file or directory"),
        (CERTIFICATE, DATA, "^--tls-key .*data cannot be read: "),
        (DATA / "another-certificate.pem", KEY, "^--tls-key .*key.pem is not the key of --tls-cert .*; give its own$"),
        (KEY, KEY, r"cannot be used \(.*\); give a certificate and its key in PEM form$"),
        (CERTIFICATE, CERTIFICATE, r"cannot be used \(.*\); give a certificate and its key in PEM form$"),
        (Path(__file__), Path(__file__), r"cannot be used \(.*\); give a certificate and its key in PEM form$"),
        (CERTIFICATE, DATA / "locked-key.pem", "locked-key.pem has a password; write it without one: openssl"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(certificate: Path, key: Path, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as error:
        read_tls(certificate, key)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
