"""Translates file system errors into `StorageError`: one sentence with a remedy.

Hadoop's file systems throw exceptions of many classes, and S3A wraps them twice. `_KINDS` recognizes them by
class name or message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from ..jvm.errors import first_line, java_causes, one_line
from ..protocol.errors import StreamJobError

REMEDY = "Check the location and <whose> access to it"
FULL = ("no space left", "quota exceeded", "quotaexceeded", "storagefull")  # in messages, in lower case


class StorageError(StreamJobError):
    """A file operation failed.

    :param uri: the file.
    :param what: what was attempted, a verb phrase such as `read`.
    :param cause: the file system's own message, one line.
    """

    reason: ClassVar[str] = "StorageFailed"
    retryable: ClassVar[bool] = True

    def __init__(self, uri: str, what: str, cause: str, *, remedy: str = "") -> None:
        super().__init__(f"cannot {what} {uri}: {cause}", remedy=remedy)
        self.uri = uri
        self.what = what
        self.cause = cause


class NotFound(StorageError):
    reason = "FileNotFound"
    retryable = False


class AccessDenied(StorageError):
    reason = "StorageAccessDenied"
    retryable = False


class NotADirectory(StorageError):
    reason = "NotADirectory"
    retryable = False


class LinkFound(StorageError):
    """A checkpoint directory or a savepoint contains a symbolic link instead of the file itself."""

    reason = "LinkFound"
    retryable = False


class StorageFull(StorageError):
    reason = "StorageFull"


class FileExists(StorageError):
    reason = "FileExists"
    retryable = False


class NoConnector(StorageError):
    """The image has no file system for this scheme."""

    reason = "ConnectorMissing"
    retryable = False


class _Kind(NamedTuple):
    error: type[StorageError]
    exceptions: tuple[str, ...]  # simple names of Java or Python classes
    words: tuple[str, ...]  # or parts of the message, in lower case
    remedy: str


_KINDS = (
    _Kind(
        NotADirectory,
        ("ParentNotDirectoryException", "PathIsNotDirectoryException", "NotADirectoryError"),
        (),
        "Choose another place: a file is where a folder is needed",
    ),
    _Kind(LinkFound, ("LinkFound",), (), "Put the file itself in its place, or take it away"),
    _Kind(FileExists, ("FileAlreadyExistsException", "FileExistsError"), (), "Choose another place"),
    _Kind(
        NoConnector,
        ("ClassNotFoundException", "NoClassDefFoundError", "UnsupportedFileSystemException"),
        (),
        "Correct the scheme, or <jars>",
    ),
    _Kind(
        NotFound,
        ("FileNotFoundException", "NoSuchFileException", "UnknownStoreException", "FileNotFoundError"),
        (),
        "Check the location<mounted>",
    ),
    _Kind(  # before AccessDenied: object stores answer 403 for an exceeded quota, too
        StorageFull,
        ("DSQuotaExceededException", "NSQuotaExceededException"),
        FULL,
        "Make room; it is tried again",
    ),
    _Kind(
        AccessDenied,
        (
            "AccessDeniedException",
            "AccessControlException",
            "NoAuthWithAWSException",
            "NoAwsCredentialsException",
            "CredentialInitializationException",
        ),
        ("permission denied", "operation not permitted", "read-only file system"),
        "Give <whose> user the right to it; of an object store, see that <identity>",
    ),
)


@contextmanager
def translated(uri: str, what: str) -> Iterator[None]:
    """Raise a `StorageError` for any error of the JVM or the operating system in the block.

    :param uri: the file that the block works on.
    :param what: what the block attempts, see `StorageError`.
    """
    try:
        yield
    except Py4JJavaError as e:
        causes = java_causes(e)  # S3A wraps the actual cause
        names = [str(cause.getClass().getSimpleName()) for cause in causes]
        raise storage_error(uri, what, names, str(causes[0].getMessage() or "")) from None
    except CapturedException as e:
        raise storage_error(uri, what, [type(e).__name__], str(e)) from None
    except OSError as e:
        raise storage_error(uri, what, [type(e).__name__], e.strerror or str(e)) from None
    except Py4JError as e:
        raise StorageError(uri, what, f"the driver's JVM did not answer ({one_line(e)})") from None


def storage_error(uri: str, what: str, names: Sequence[str], message: str) -> StorageError:
    """The `StorageError` for an exception.

    :param names: simple class names of the exception and its causes, outermost first.
    :param message: the message of the exception.
    """
    text = first_line(message)
    for kind in _KINDS:
        if any(n in kind.exceptions for n in names) or any(w in message.lower() for w in kind.words):
            return kind.error(uri, what, text or names[0], remedy=kind.remedy)
    return StorageError(uri, what, f"{names[0]}: {text}" if text else names[0], remedy=REMEDY)
