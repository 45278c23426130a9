"""Buckets of S3, and of servers that speak like it, as storages."""

import threading
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from io import RawIOBase
from typing import Any
from urllib.parse import urlsplit

from pilotage.ports.moving import (
    Delivered,
    Grant,
    Progress,
    Readable,
    Space,
    StorageError,
    WrongFileError,
)

from .backend import Backend, PathEntry, StorageOptionError
from .checksums import checksum_of
from .ranged import FEW, LARGE, RangedStream, sample_end, spare
from .third_party import CannotFetch

if find_spec("boto3") is None:
    raise ImportError("boto3 is not installed: pip install pilotage[s3]")

OPTIONS = {"endpoint_url", "region", "profile", "ca_file"}
TIMEOUTS = (30, 300)
"""Seconds to connect, and without a byte, before a server is given up."""

CONNECTIONS = 64
"""Connections that are kept to a server."""

LARGEST_PIECE = 8 << 20
"""Bytes of an object that is sent whole; larger ones go in parts."""

LARGEST_COPY, COPY_PART = 5 << 30, 512 << 20
"""Bytes that a server copies in one piece at most, and those of a part of what is larger."""

GRANTED_FOR = 900
"""Seconds for which a signed address is good: until then its use must have begun."""

GONE = {"404", "NoSuchKey", "NotFound"}
CHANGED = {"412", "PreconditionFailed"}
REFUSED = {"403", "AccessDenied"}


class S3Backend:
    """A prefix of a bucket, ``s3://BUCKET/PREFIX``.

    Options: ``endpoint_url`` and ``region`` of the server, ``profile`` of the credentials in AWS's own files,
    which else come from its environment variables; ``ca_file`` with the authorities to trust. An object
    appears when all of it is there, and nothing leads out of a bucket: no parts and no folders are made.
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
        """See :class:`~pilotage.movers.backend.Backend`."""
        with _explained(path):
            return PathEntry("file", self._open().head_object(**self._at(path))["ContentLength"])

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        for page in self._pages(prefix, Delimiter="/"):
            for found in page.get("CommonPrefixes", ()):
                yield found["Prefix"].removeprefix(prefix).rstrip("/"), PathEntry("folder")
            for found in page.get("Contents", ()):
                if found["Key"] != prefix:
                    yield found["Key"].removeprefix(prefix), PathEntry("file", found["Size"])

    @contextmanager
    def read(self, path: str) -> Iterator[Readable]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        with self.read_from(path, 0) as body:
            yield body

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Readable]:
        """See :class:`~pilotage.movers.ranged.SeekableBackend`."""
        part = {"Range": f"bytes={start}-"} if start else {}
        with _explained(path):
            body = self._open().get_object(**self._at(path), **part)["Body"]
        with body:
            yield body

    @contextmanager
    def read_ranges(self, path: str, start: int, size: int) -> Iterator[Readable]:
        """See :class:`~pilotage.movers.ranged.RangedBackend`."""
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
        """Open a part of an object of this version. Raises WrongFileError where there is another now."""
        from botocore.exceptions import ClientError

        try:
            with _explained(path):
                found = self._open().get_object(
                    **self._at(path), Range=f"bytes={begin}-{end - 1}", IfMatch=version
                )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in CHANGED:
                raise WrongFileError(f"{path} changed while it was read") from error
            raise
        if not found.get("ContentRange", "").startswith(f"bytes {begin}-"):
            found["Body"].close()
            raise StorageError(f"{path}: the server gives parts no more")
        with found["Body"] as body:
            yield body

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:  # noqa: ARG002
        """See :class:`~pilotage.movers.third_party.FetchingBackend`: within one server, by its own copy.

        The credentials are this storage's: they must open the other bucket as well.
        """
        if not isinstance(source, S3Backend) or source._options != self._options:
            raise CannotFetch("they are not buckets of one S3 server with the same credentials")
        self._copy(source._at(path), draft)

    def describe(self, path: str, kind: str) -> Delivered | None:
        """See :class:`~pilotage.movers.third_party.FetchingBackend`.

        S3 tells the md5 of an object that came in one piece and is not encrypted by a key service, and a
        sha256 where it was asked for when the object was made; never an adler32.
        """
        with _explained(path):
            found = self._open().head_object(**self._at(path), ChecksumMode="ENABLED")
        digits, etag = "", found["ETag"].strip('"').lower()
        if kind == "md5" and not found.get("ServerSideEncryption", "").startswith("aws:kms"):
            digits = etag
        elif kind == "sha256" and found.get("ChecksumType") == "FULL_OBJECT":
            digits = b64decode(found.get("ChecksumSHA256", "")).hex()
        checksum = checksum_of(kind, digits)
        return Delivered(size=found["ContentLength"], checksum=checksum) if checksum else None

    def grant(self, path: str, size: int | None) -> Grant | None:
        """See :class:`~pilotage.movers.backend.GrantingBackend`: an address that is signed."""
        if size is not None and size > LARGEST_COPY:
            return None  # so much goes in parts alone, each with an address
        call = "get_object" if size is None else "put_object"
        url = self._open().generate_presigned_url(call, Params=self._at(path), ExpiresIn=GRANTED_FOR)
        return Grant(url=url)

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See :class:`~pilotage.movers.backend.Backend`. Large files go in parts, which end with them."""
        if size > LARGEST_PIECE:
            self._abort_uploads(path)
        # Each of several at once holds parts of 8 MiB in memory.
        number = spare.take(FEW) if size >= LARGE else 0
        try:
            config = _upload_config(number)
            self._open().upload_fileobj(
                _ChunkStream(chunks), self._bucket, self._prefix + path, Config=config
            )
        finally:
            spare.give_back(number)

    def _abort_uploads(self, path: str) -> None:
        """Abort uploads of an object that nobody ends: what they have takes room, and shows nowhere."""
        from botocore.exceptions import ClientError

        key = self._prefix + path
        # Not everybody may list them: then the bucket's own rules end them.
        with suppress(ClientError):
            found = self._open().list_multipart_uploads(Bucket=self._bucket, Prefix=key)
            for upload in found.get("Uploads", ()):
                if upload["Key"] == key:
                    self._open().abort_multipart_upload(
                        Bucket=self._bucket, Key=key, UploadId=upload["UploadId"]
                    )

    def space(self) -> Space | None:
        """See :class:`~pilotage.movers.backend.SpaceBackend`: what is left of the quota of the bucket.

        S3 itself has none. Ceph's gateway tells its own in the headers of an answer about the bucket.
        """
        with _explained(self._bucket):
            answer = self._open().head_bucket(Bucket=self._bucket)
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        quota, used = (headers.get(f"x-rgw-{name}", "") for name in ("quota-bucket-size", "bytes-used"))
        if not (quota.isdecimal() and used.isdecimal()):
            return None
        return Space(free=max(0, int(quota) - int(used)), total=int(quota))

    def rename(self, source: str, target: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`. The server copies it."""
        self._copy(self._at(source), target)
        self.delete(source)

    def _copy(self, source: Mapping[str, str], target: str) -> None:
        """Have the server copy an object: in one piece as far as S3 can, in parts above that."""
        from boto3.s3.transfer import TransferConfig

        whole = TransferConfig(multipart_threshold=LARGEST_COPY + 1, multipart_chunksize=COPY_PART)
        with _explained(source["Key"]):
            self._open().copy(source, self._bucket, self._prefix + target, Config=whole)

    def delete(self, path: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        # S3 deletes what is not there without a word; here that is a FileNotFoundError.
        self.entry(path)
        self._open().delete_object(**self._at(path))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See :class:`~pilotage.movers.backend.Backend`. There is no folder but what is in it."""
        if not recursive:
            return
        for page in self._pages(f"{self._prefix}{path}/"):
            for found in page.get("Contents", ()):
                self._open().delete_object(Bucket=self._bucket, Key=found["Key"])

    def _pages(self, prefix: str, **options: str) -> Iterator[Mapping[str, Any]]:
        pages = self._open().get_paginator("list_objects_v2")
        yield from pages.paginate(Bucket=self._bucket, Prefix=prefix, **options)

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + path}

    def _open(self) -> Any:
        """The client, made at its first use: unlike its session it may be used from several threads."""
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
    """Turn the answers that an object is not there, or refused, into those of a file system."""
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
    """The settings of an upload that sends so many parts at once, or one after another."""
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(
        use_threads=number > 1, max_concurrency=max(1, number), multipart_threshold=LARGEST_PIECE
    )
    config.max_in_memory_upload_chunks = max(1, number)
    return config


class _ChunkStream(RawIOBase):
    """Chunks as a stream to read, in whatever sizes are asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__()
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        """Tell whether it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read just so many bytes, fewer at the end."""
        pieces, wanted = [self._rest], size - len(self._rest)
        while size < 0 or wanted > 0:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            pieces.append(chunk)
            wanted -= len(chunk)
        data = b"".join(pieces)
        self._rest = data[size:] if 0 <= size < len(data) else b""
        return data if size < 0 else data[:size]
