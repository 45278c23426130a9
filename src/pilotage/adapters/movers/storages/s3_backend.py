"""Buckets of S3 and compatible servers as storages."""

import threading
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from io import RawIOBase
from typing import Any
from urllib.parse import urlsplit

from pilotage.adapters.movers.copies.checksums import checksum_of
from pilotage.adapters.movers.copies.ranged import FEW, LARGE, RangedStream, sample_end, spare
from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.storages.backend import Backend, PathEntry, StorageOptionError
from pilotage.model.values.phrases import not_installed
from pilotage.ports.moving import (
    Delivered,
    Grant,
    Progress,
    Readable,
    Space,
    StorageError,
    WrongFileError,
)

if find_spec("boto3") is None:
    raise ImportError(not_installed("boto3", "s3"))

OPTIONS = {"endpoint_url", "region", "profile", "ca_file"}
TIMEOUTS = (30, 300)
"""Time limits in s for connecting, and without a byte."""

CONNECTIONS = 64
"""Most connections kept open per server."""

LARGEST_PIECE = 8 << 20
"""Largest object in bytes that is sent in one piece. Larger ones go in parts."""

LARGEST_COPY, COPY_PART = 5 << 30, 512 << 20
"""Most bytes that a server copies in one piece, and bytes per part of larger objects."""

GRANTED_FOR = 900
"""Seconds within which the use of a signed address must begin."""

GONE = {"404", "NoSuchKey", "NotFound"}
CHANGED = {"412", "PreconditionFailed"}
REFUSED = {"403", "AccessDenied"}


class S3Backend:
    """A prefix of a bucket, ``s3://BUCKET/PREFIX``.

    Options: ``endpoint_url`` and ``region`` of the server; ``profile`` of the credentials in AWS's own files,
    which otherwise come from its environment variables; ``ca_file`` with trusted authorities. An object
    appears when it is complete, and nothing leads out of a bucket. So there are no part files and no folders.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"s3: unknown options {unknown}; known are {sorted(OPTIONS)}")
        parts = urlsplit(url)
        if not parts.netloc:
            raise ValueError(f"{url!r} has no bucket; give one, as in s3://bucket/path")
        self._bucket, self._prefix = parts.netloc, f"{parts.path.strip('/')}/".lstrip("/")
        self._options = dict(options)
        self._lock = threading.Lock()
        self._client: Any = None

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        with _explained(path):
            return PathEntry("file", self._open().head_object(**self._at(path))["ContentLength"])

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``."""
        prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        for page in self._pages(prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", ()):
                yield item["Prefix"].removeprefix(prefix).rstrip("/"), PathEntry("folder")
            for item in page.get("Contents", ()):
                if item["Key"] != prefix:
                    yield item["Key"].removeprefix(prefix), PathEntry("file", item["Size"])

    def read(self, path: str) -> AbstractContextManager[Readable]:
        """See ``Backend``."""
        return self.read_from(path, 0)

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Readable]:
        """See ``SeekableBackend``."""
        part = {"Range": f"bytes={start}-"} if start else {}
        with _explained(path):
            body = self._open().get_object(**self._at(path), **part)["Body"]
        with body:
            yield body

    @contextmanager
    def read_ranges(self, path: str, start: int, size: int) -> Iterator[Readable]:
        """See ``RangedBackend``."""
        client, begun = self._open(), time.monotonic()
        with _explained(path):
            part = f"bytes={start}-{sample_end(start, size) - 1}"
            answer = client.get_object(**self._at(path), Range=part)
        answered = time.monotonic() - begun
        total = answer.get("ContentRange", "").rpartition("/")[2]
        with answer["Body"] as first:
            if not total.isdecimal():  # a server that gives no ranges
                yield first
                return
            more = partial(self._part_of, path, answer["ETag"])
            with RangedStream(first, more, start, int(total), answered) as stream:
                yield stream

    @contextmanager
    def _part_of(self, path: str, version: str, begin: int, end: int) -> Iterator[Readable]:
        """Open a part of an object of this version. Raises WrongFileError if the version has changed."""
        from botocore.exceptions import ClientError

        try:
            with _explained(path):
                answer = self._open().get_object(
                    **self._at(path), Range=f"bytes={begin}-{end - 1}", IfMatch=version
                )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in CHANGED:
                raise WrongFileError(f"{path} changed while it was read") from error
            raise
        if not answer.get("ContentRange", "").startswith(f"bytes {begin}-"):
            answer["Body"].close()
            raise StorageError(f"{path}: the server gives parts no more")
        with answer["Body"] as body:
            yield body

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:  # noqa: ARG002
        """See ``FetchingBackend``. It copies within one server only.

        This storage's credentials must open the other bucket as well.
        """
        if not isinstance(source, S3Backend) or source._options != self._options:
            raise CannotFetch("they are not buckets of one S3 server with the same credentials")
        self._copy(source._at(path), draft)

    def describe(self, path: str, kind: str) -> Delivered | None:
        """See ``FetchingBackend``.

        S3 knows the md5 of an object that came in one piece without encryption by a key service. It knows a
        sha256 if the upload requested it, and never an adler32.
        """
        with _explained(path):
            answer = self._open().head_object(**self._at(path), ChecksumMode="ENABLED")
        digits, etag = "", answer["ETag"].strip('"').lower()
        if kind == "md5" and not answer.get("ServerSideEncryption", "").startswith("aws:kms"):
            digits = etag
        elif kind == "sha256" and answer.get("ChecksumType") == "FULL_OBJECT":
            digits = b64decode(answer.get("ChecksumSHA256", "")).hex()
        checksum = checksum_of(kind, digits)
        return Delivered(size=answer["ContentLength"], checksum=checksum) if checksum else None

    def grant(self, path: str, size: int | None) -> Grant | None:
        """See ``GrantingBackend``. It returns a signed address."""
        if size is not None and size > LARGEST_COPY:
            return None  # so much goes in parts alone, each with an address
        call = "get_object" if size is None else "put_object"
        url = self._open().generate_presigned_url(call, Params=self._at(path), ExpiresIn=GRANTED_FOR)
        return Grant(url=url)

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See ``Backend``.

        Large files go in parts, which disappear when the upload ends.
        """
        if size > LARGEST_PIECE:
            self._abort_uploads(path)
        # Each concurrent part holds 8 MiB in memory.
        number = spare.take(FEW) if size >= LARGE else 0
        try:
            config = _upload_config(number)
            self._open().upload_fileobj(
                _ChunkStream(chunks), self._bucket, self._prefix + path, Config=config
            )
        finally:
            spare.give_back(number)

    def _abort_uploads(self, path: str) -> None:
        """Abort unfinished uploads of an object: they take room, and no listing shows them."""
        from botocore.exceptions import ClientError

        key = self._prefix + path
        # Not everybody may list them. Then the bucket's own rules remove them.
        with suppress(ClientError):
            answer = self._open().list_multipart_uploads(Bucket=self._bucket, Prefix=key)
            for upload in answer.get("Uploads", ()):
                if upload["Key"] == key:
                    self._open().abort_multipart_upload(
                        Bucket=self._bucket, Key=key, UploadId=upload["UploadId"]
                    )

    def space(self) -> Space | None:
        """See ``SpaceBackend``. It is the remaining quota of the bucket.

        S3 itself has none. Ceph's gateway reports its own in the headers of an answer about the bucket.
        """
        with _explained(self._bucket):
            answer = self._open().head_bucket(Bucket=self._bucket)
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        quota, used = (headers.get(f"x-rgw-{name}", "") for name in ("quota-bucket-size", "bytes-used"))
        if not (quota.isdecimal() and used.isdecimal()):
            return None
        return Space(free=max(0, int(quota) - int(used)), total=int(quota))

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``. The server copies it."""
        self._copy(self._at(source), target)
        self.delete(source)

    def _copy(self, source: Mapping[str, str], target: str) -> None:
        """Let the server copy an object: in one piece if S3 can, otherwise in parts."""
        from boto3.s3.transfer import TransferConfig

        whole = TransferConfig(multipart_threshold=LARGEST_COPY + 1, multipart_chunksize=COPY_PART)
        with _explained(source["Key"]):
            self._open().copy(source, self._bucket, self._prefix + target, Config=whole)

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        # S3 silently accepts deleting a missing object. Here that raises FileNotFoundError.
        self.entry(path)
        self._open().delete_object(**self._at(path))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``. A folder exists only through its content."""
        if not recursive:
            return
        for page in self._pages(f"{self._prefix}{path}/"):
            for item in page.get("Contents", ()):
                self._open().delete_object(Bucket=self._bucket, Key=item["Key"])

    def _pages(self, prefix: str, **options: str) -> Iterator[Mapping[str, Any]]:
        pages = self._open().get_paginator("list_objects_v2")
        yield from pages.paginate(Bucket=self._bucket, Prefix=prefix, **options)

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + path}

    def _open(self) -> Any:
        """Return the client, made at its first use. Unlike its session, several threads may use it."""
        with self._lock:
            if self._client is None:
                import boto3
                from botocore.config import Config

                connect, read = TIMEOUTS
                config = Config(
                    connect_timeout=connect,
                    read_timeout=read,
                    max_pool_connections=CONNECTIONS,
                    signature_version="s3v4",  # which signed addresses would not have by themselves
                    # Many servers do not know the client's checksums, and Pilotage compares its own.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                )
                session = boto3.session.Session(profile_name=self._options.get("profile"))
                self._client = session.client(
                    "s3",
                    endpoint_url=self._options.get("endpoint_url"),
                    region_name=self._options.get("region"),
                    verify=self._options.get("ca_file"),
                    config=config,
                )
            return self._client


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn answers about missing or refused objects into a file system's errors."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in GONE:
            raise FileNotFoundError(path) from error
        if error.response.get("Error", {}).get("Code") in REFUSED:
            raise PermissionError(f"{path}: {error}") from error
        raise


def _upload_config(number: int) -> Any:
    """Return the settings of an upload with that many concurrent parts."""
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(
        use_threads=number > 1, max_concurrency=max(1, number), multipart_threshold=LARGEST_PIECE
    )
    config.max_in_memory_upload_chunks = max(1, number)
    return config


class _ChunkStream(RawIOBase):
    """Chunks as a stream that can be read in any sizes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__()
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read exactly ``size`` bytes, or fewer at the end."""
        pieces, missing = [self._rest], size - len(self._rest)
        while size < 0 or missing > 0:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            pieces.append(chunk)
            missing -= len(chunk)
        data = b"".join(pieces)
        self._rest = data[size:] if 0 <= size < len(data) else b""
        return data if size < 0 else data[:size]
