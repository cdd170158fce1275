"""The S3 client of the tasks, the HPC application and the probe. The only module that imports obstore."""

from datetime import timedelta

from obstore.store import S3Store

from benchmarks.testbed.address import ACCESS_KEY, BUCKET, ENDPOINT, SECRET_KEY

REQUEST_BYTES = 4 << 20
"""One ranged read, or one write."""


def open_store() -> S3Store:
    """Open the bucket; payloads are left unsigned, so that hashing doesn't become the bottleneck."""
    return S3Store(
        BUCKET,
        endpoint=ENDPOINT,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        region="us-east-1",
        unsigned_payload=True,
        client_options={"allow_http": True, "timeout": "60s"},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=10)},
    )


def read_in_ranges(store: S3Store, key: str, size_bytes: int) -> int:
    """Read an object by ranged requests, one after the other; returns the bytes received."""
    received_bytes = 0
    for start in range(0, size_bytes, REQUEST_BYTES):
        received_bytes += len(store.get_range(key, start=start, end=min(start + REQUEST_BYTES, size_bytes)))
    return received_bytes
