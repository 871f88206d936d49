"""Copies by an S3 server: what is not surely the hash of the copy is not taken for it.

`tests/spark/test_s3.py` has a real server, which tells the truth; here is one that need not, behind what S3A
looks like from Python.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from streamjob.storage.s3_copy import LIMIT, StoreCopies

CONTENT = b"state"
SHA256 = hashlib.sha256(CONTENT)
HONEST = base64.b64encode(SHA256.digest()).decode()


class Bucket:
    """Looks like an S3AFileSystem, its builder, client and answers at once.

    `answer` is what it says of a copy.
    """

    def __init__(self, answer: Callable[[], str | None] = lambda: HONEST) -> None:
        self.objects = {"a": CONTENT}
        self.answer = answer
        self.encrypts = False
        self.tag, self.size = '"0123"', len(CONTENT)
        self.asked: list[dict[str, object]] = []

    def getS3AInternals(self) -> Bucket:
        return self

    getRequestFactory = getS3AInternals

    def getAmazonS3Client(self, reason: str) -> Bucket:
        return self

    def isCSEEnabled(self) -> bool:
        return self.encrypts

    def getUri(self) -> Any:
        return SimpleNamespace(toString=lambda: "s3a://bucket")

    def pathToKey(self, path: str) -> str:
        return path

    def getObjectMetadata(self, path: str) -> Any:
        return SimpleNamespace(contentLength=lambda: self.size, eTag=lambda: self.tag)

    def newCopyObjectRequestBuilder(self, source: str, target: str, head: object) -> Any:
        request: dict[str, object] = {"from": source, "to": target}
        return SimpleNamespace(
            checksumAlgorithm=lambda name: request.update(checksum=name),
            copySourceIfMatch=lambda tag: request.update(match=tag),
            build=lambda: request,
        )

    def copyObject(self, request: dict[str, Any]) -> Any:
        self.asked.append(request)
        said = self.answer()
        self.objects[request["to"]] = self.objects[request["from"]]
        return SimpleNamespace(copyObjectResult=lambda: SimpleNamespace(checksumSHA256=lambda: said))

    def open(self, path: str) -> Any:
        return SimpleNamespace(path=path, close=lambda: None)

    def copies(self) -> StoreCopies:
        return StoreCopies(self, lambda stream: hashlib.sha256(self.objects[stream.path]).hexdigest())


def raising(error: Exception) -> Callable[[], str]:
    def answer() -> str:
        raise error

    return answer


def refused(status: int | None) -> Py4JJavaError:
    def status_code() -> int:
        if status is None:
            raise Py4JError("it has no such method")
        return status

    name = SimpleNamespace(getSimpleName=lambda: "S3Exception")
    java = SimpleNamespace(
        _target_id="o1", getCause=lambda: None, getClass=lambda: name, statusCode=status_code
    )
    return Py4JJavaError("refused", java)


def test_the_servers_hash_is_the_copys() -> None:
    bucket = Bucket()
    assert bucket.copies().copy("a", "b") == (len(CONTENT), SHA256.hexdigest())
    assert bucket.asked == [{"from": "a", "to": "b", "checksum": "SHA256", "match": '"0123"'}]


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        HONEST + "-3",  # of the parts' hashes
        HONEST[:-4],
        "no base64 at all",
        base64.b64encode(b"x" * 20).decode(),  # SHA-1
        base64.b64encode(b"x" * 32).decode(),  # of something else
    ],
)
def test_what_is_no_hash_of_it_is_not_taken(said: str | None, caplog: pytest.LogCaptureFixture) -> None:
    bucket = Bucket(lambda: said)
    copies = bucket.copies()
    with caplog.at_level(logging.INFO, "streamjob"):
        assert [copies.copy("a", "b") for _ in range(3)] == [None] * 3
    assert len(bucket.asked) == 1  # it is not asked again
    assert len(caplog.records) == 1
    assert "s3a://bucket: the server does not copy" in caplog.text


@pytest.mark.parametrize(
    ("status", "asked"), [(501, 1), (403, 1), (400, 1), (412, 3), (404, 3), (503, 3), (None, 3)]
)
def test_a_server_that_refuses(status: int | None, asked: int) -> None:
    """What it says of every file it is not asked again; what may be of this one only, it is."""
    bucket = Bucket(raising(refused(status)))
    copies = bucket.copies()
    assert [copies.copy("a", "b") for _ in range(3)] == [None] * 3
    assert len(bucket.asked) == asked


def test_another_s3a_than_is_known() -> None:
    bucket = Bucket(raising(Py4JError("Method copyObject does not exist")))
    assert bucket.copies().copy("a", "b") is None


def test_never_in_parts_too_large_or_encrypted_here() -> None:
    for change in ({"tag": '"0123-2"'}, {"size": LIMIT + 1}, {"encrypts": True}):
        bucket = Bucket()
        vars(bucket).update(change)
        assert bucket.copies().copy("a", "b") is None
        assert bucket.asked == []


def test_one_in_parts_says_nothing_of_the_next() -> None:
    bucket = Bucket()
    copies = bucket.copies()
    bucket.tag = '"0123-2"'
    assert copies.copy("a", "b") is None
    bucket.tag = '"0123"'
    assert copies.copy("a", "b") is not None
