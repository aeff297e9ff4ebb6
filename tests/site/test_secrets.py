"""Credentials in addresses are hidden wherever a text or a record shows them, and nothing else is."""

import pytest

from howmanygpus.base.secrets import hide_everywhere, hide_in_addresses
from howmanygpus.prepare.acquire.acquisition import Download
from howmanygpus.prepare.acquire.downloading import AcquisitionError, fetch
from howmanygpus.report.outcomes import list_changes


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://me:pass@proxy:8/x", "http://proxy:8/x"),
        ("https://s3/x?X-Amz-Credential=A/b&X-Amz-Expires=9&X-Amz-Signature=f0#1", None),
        ("curl 'https://h/x?token=abc' -o y", "curl 'https://h/x?token=...' -o y"),
        ('{"url": "https://h/x?a=1&sig=a%2Fb"}', '{"url": "https://h/x?a=1&sig=..."}'),
        ("https://h/x?AWSAccessKeyId=A&x-goog-signature=b", "https://h/x?AWSAccessKeyId=...&x-goog-signature=..."),
        ("https://h/x?keyword=cat&author=me&sigma=1", "https://h/x?keyword=cat&author=me&sigma=1"),
        ("train.py --tokens=512 --sig=1 a@b", "train.py --tokens=512 --sig=1 a@b"),
    ],
)
def test_passwords_and_signatures_are_hidden_in_addresses_alone(given, shown):
    shown = shown or "https://s3/x?X-Amz-Credential=...&X-Amz-Expires=9&X-Amz-Signature=...#1"
    assert hide_in_addresses(given) == shown
    assert hide_everywhere({"program": [given, 1, None]}) == {"program": [shown, 1, None]}


def test_the_record_of_a_run_is_compared_without_its_credentials():
    planned = {"program": {"command": "get https://h/x?token=abc"}, "steps": 4}
    record = {"spec": hide_everywhere(planned)}
    assert list_changes(planned, record, {}) == []
    assert list_changes(planned | {"steps": 5}, record, {}) == ["steps"]
    other = {"program": {"command": "get https://h/y?token=abc"}}
    assert list_changes(other, record, {}) == ["program"]


def test_a_download_that_fails_does_not_say_its_signature(tmp_path, capsys):
    download = Download("http://127.0.0.1:9/x.tar?sig=abc", "sha256:" + 64 * "0", 5)
    with pytest.raises(AcquisitionError) as error:
        fetch(download, tmp_path, pause_s=0.0)
    assert "http://127.0.0.1:9/x.tar?sig=...: " in str(error.value)
    assert "abc" not in str(error.value) + capsys.readouterr().out
