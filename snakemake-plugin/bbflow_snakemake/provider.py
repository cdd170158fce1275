"""The storage provider: all files of one storage, and what is fetched ahead of them."""

from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from bbflow.errors import BbflowError
from bbflow.staging import Sources
from bbflow_snakemake.ahead import Ahead
from bbflow_snakemake.copying import DirectCopies
from bbflow_snakemake.known import KnownFiles
from bbflow_snakemake.places import refusal, url_of
from bbflow_snakemake.settings import StorageProviderSettings, plan_of


class BurstBufferStorage(StorageProviderBase):
    """Files by paths and URLs, as `bbflow.staging.Sources` knows them; the burst buffer is the local storage prefix."""

    def __post_init__(self) -> None:
        try:
            self._plan = plan_of(self.settings or StorageProviderSettings())
            self.sources = Sources(self._plan.sources)
            """The stores."""
        except BbflowError as error:
            raise WorkflowError(str(error)) from None
        self.known = KnownFiles(self.sources)
        """What they said lately."""
        self.copies = DirectCopies(self._plan, self.sources, self.local_prefix / ".coming")
        """Copies one file now."""
        self.ahead: Ahead | None = None
        """Fetches for jobs that come, once `fetch_ahead` was called."""

    def fetch_ahead(self, slots: int) -> Ahead:
        """Begin to fetch for jobs that come, of which this many can run at once; what has begun continues."""
        if self.ahead is None:
            try:
                self.ahead = Ahead(self._plan, self.local_prefix / ".ahead", slots, self.keep_local)
            except BbflowError as error:
                raise WorkflowError(str(error)) from None
        return self.ahead

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        """Return what may be asked for."""
        return [
            ExampleQuery("/pfs/survey/tile.fits", "A path, of any file system of this host.", QueryType.ANY),
            ExampleQuery("s3://bucket/tile.fits", "An object.", QueryType.ANY),
            ExampleQuery("bb://survey/tile.fits", "A file on BB nodes ('bbflow files').", QueryType.ANY),
            ExampleQuery("https://host/tile.fits", "A file behind a URL.", QueryType.INPUT),
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        """Return the same for all: the number of requests a second holds for all together."""
        return "all"

    def default_max_requests_per_second(self) -> float:
        """Return what holds if a user wants a limit, and doesn't say which."""
        return 100.0

    def use_rate_limiter(self) -> bool:
        """Whether requests are limited: only where the user says so."""
        return self.settings is not None and self.settings.max_requests_per_second is not None

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        """Return whether a query, which may have wildcards, names a file."""
        reason = refusal(query)
        return StorageQueryValidationResult(query, reason is None, reason)

    def postprocess_query(self, query: str) -> str:
        """Return a query in the one form by which a file is known."""
        return query if refusal(query) else url_of(query)
