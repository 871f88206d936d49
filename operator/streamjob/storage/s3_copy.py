"""Server-side copies within one S3 bucket: no byte of the file passes through the driver.

S3A offers such copies only inside its rename, which does not report what was copied. So S3A's own request
factory builds the request (encryption, storage class, owner), S3A's own client sends it (credentials,
endpoint, retries), and this module adds one option: the server computes the SHA-256 of the copy and returns
it. Nothing else is known of the contents, so `StoreCopies` accepts a hash only if it cannot be anything else.
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

LIMIT = 5 << 30  # bytes: the limit of one CopyObject
REASON = "copy of a savepoint's file"  # S3A logs it at debug level
# HTTP statuses that concern one file and need not recur for the next: missing, changed since, too many
# requests.
_THIS_FILE = frozenset({404, 412, 429})


class StoreCopies:
    """Server-side copies within the bucket of one S3AFileSystem. Thread-safe.

    If the server returns no hash or a wrong one, or refuses the request, it is not asked again. To detect a
    wrong hash, the first copy is read back. Some objects are never copied in this way: those uploaded in
    parts (the copy's hash may be a hash of the parts' hashes), those above the limit of one request, and
    those that S3A itself encrypts (the server would hash the encrypted bytes).
    """

    def __init__(self, system: Any, hash_of: Callable[[Any], str]) -> None:
        """:param system: the S3AFileSystem.
        :param hash_of: computes the SHA-256 of a Java input stream, in hexadecimal.
        """
        self._system, self._hash_of = system, hash_of
        self._lock = threading.Lock()
        self._able: bool | None = None  # None: not known yet

    def copy(self, source: Any, target: Any) -> tuple[int, str] | None:
        """Copy one object.

        :param source: a Hadoop path, as is `target`.
        :returns: bytes and SHA-256, or None if it must be copied by other means; something may then be at
            `target`.
        :raises Py4JJavaError: S3A cannot look up `source`, for example FileNotFoundException.
        """
        try:
            if self._able is None:
                with self._lock:  # only one thread tries the server for the first time
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
        """As `copy`.

        :raises _Unable: the next copy would fail, too.
        """
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
                request.copySourceIfMatch(tag)  # the length read above belongs to this version only
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
    """Server-side copies do not work here, neither for this file nor for any other."""


def _refuse(error: Py4JJavaError) -> None:
    """Return if the error concerns this one file only.

    :raises _Unable: the server would refuse other files, too.
    """
    cause = java_causes(error)[0]
    try:
        status = int(cause.statusCode())
    except Py4JError:  # no status: the error does not come from the server
        return
    if (400 <= status < 500 and status not in _THIS_FILE) or status == 501:
        raise _Unable(f"it refuses ({cause.getClass().getSimpleName()}, {status})")


def _sha256(text: str) -> str | None:
    """Decode a SHA-256 from base64.

    :returns: the hash in hexadecimal; None if it is not that of a whole object (cut off, or with a number of
        parts).
    """
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return found.hex() if len(found) == hashlib.sha256().digest_size else None
