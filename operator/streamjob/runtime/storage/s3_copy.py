"""Copies that an S3 server makes within a bucket: no byte of the file goes through the driver.

S3A has them only inside of its rename, which does not tell what was copied. So the request is one of S3A's own (with its
encryption, storage class, owner), sent by S3A's own client (its credentials, endpoint, retries), and one thing is added: the
server shall compute the SHA-256 of the copy and return it. That is all that is known of the contents, so nothing is taken for
it that might be something else: see `StoreCopies`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from ..jvm.errors import java_causes

log = logging.getLogger("streamjob")

LIMIT = 5 << 30  # bytes: what one CopyObject takes
REASON = "copy of a savepoint's file"  # S3A logs it, at debug level
# What this file may have met with, and the next one need not: gone, changed since, too many requests.
_THIS_FILE = frozenset({404, 412, 429})


class StoreCopies:
    """Of the bucket of one S3AFileSystem. Thread-safe.

    A server that does not return a hash, refuses the request or returns a wrong one is not asked again; the first copy is read
    back to know the latter. Never copied in this way: objects that were uploaded in parts (the hash of the copy may be one of
    the parts' hashes), larger ones than one request takes, and those that S3A encrypts itself (the server's hash is of what
    nobody reads).
    """

    def __init__(self, system: Any, hash_of: Callable[[Any], str]) -> None:
        """:param hash_of: SHA-256 of what a stream gives, in hexadecimal."""
        self._system, self._hash_of = system, hash_of
        self._lock = threading.Lock()
        self._able: bool | None = None  # None: not known yet

    def copy(self, source: Any, target: Any) -> tuple[int, str] | None:
        """Bytes and SHA-256, or None: it has to be copied by other means, and something may be at `target`.

        :param source: as `target`, a Hadoop path. :raises Py4JJavaError: FileNotFoundException, or what else S3A says of it.
        """
        try:
            if self._able is None:
                with self._lock:  # one finds out
                    if self._able is None:
                        return self._first(source, target)
            return self._copy(source, target) if self._able else None
        except _Unable as e:
            if self._able is not False:
                where = self._system.getUri().toString()
                log.info("%s: the server does not copy files by itself: %s", where, e)
            self._able = False
            return None

    def _first(self, source: Any, target: Any) -> tuple[int, str] | None:
        copied = self._copy(source, target)
        if copied is None:
            return None
        stream = self._system.open(target)
        try:
            read = self._hash_of(stream)
        finally:
            stream.close()
        if read != copied[1]:
            raise _Unable("the hash that it returns is not that of the file")
        self._able = True
        return copied

    def _copy(self, source: Any, target: Any) -> tuple[int, str] | None:
        """:raises _Unable: see there."""
        internals = self._system.getS3AInternals()
        head = internals.getObjectMetadata(source)
        size, tag = int(head.contentLength()), str(head.eTag() or "")
        if size > LIMIT or "-" in tag:
            return None
        try:
            if self._system.isCSEEnabled():
                raise _Unable("it is not the server that encrypts")
            keys = [self._system.pathToKey(path) for path in (source, target)]
            request = self._system.getRequestFactory().newCopyObjectRequestBuilder(*keys, head)
            request.checksumAlgorithm("SHA256")
            if tag:
                request.copySourceIfMatch(tag)  # the length is that of this one
            result = internals.getAmazonS3Client(REASON).copyObject(request.build()).copyObjectResult()
            found = _sha256(str(result.checksumSHA256() or "")) if result is not None else None
        except Py4JJavaError as e:
            _refuse(e)
            return None
        except Py4JError as e:
            raise _Unable(f"this S3A has other methods ({type(e).__name__})") from None
        if found is None:
            raise _Unable("it returns no SHA-256 of what it has copied")
        return size, found


class _Unable(Exception):
    """Nor will the next file be copied in this way."""


def _refuse(error: Py4JJavaError) -> None:
    """:raises _Unable: what the server says is not about this one file."""
    cause = java_causes(error)[0]
    try:
        status = int(cause.statusCode())
    except Py4JError:  # it was not the server that said so
        return
    if (400 <= status < 500 and status not in _THIS_FILE) or status == 501:
        raise _Unable(f"it refuses ({cause.getClass().getSimpleName()}, {status})")


def _sha256(text: str) -> str | None:
    """In hexadecimal, from base64. None: it is none of a whole object (with a number of parts behind it, cut off)."""
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return found.hex() if len(found) == hashlib.sha256().digest_size else None
