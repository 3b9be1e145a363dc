"""Methods that save files, check them, and keep what was made of them on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class CachingMethods(Generic[T_co]):
    """check_hash, save_to_disk, on_disk_cache, end_caching."""

    def check_hash(
        self,
        hash_dict: Mapping[str, str],
        hash_type: str = "sha256",
        rewind: bool = True,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, Any]]:
        """The ``(name, data)`` whose hashes are those that ``hash_dict`` has for their names; others are errors.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", b"")]).check_hash({"a": "d41d8cd98f00b204e9800998ecf8427e"}, "md5"))
        [('a', b'')]
        """
        from datapipes.iter.files.hash import HashChecker

        return HashChecker(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            hash_dict,
            hash_type,
            rewind,
            on_error=on_error,
            max_errors=max_errors,
        )

    def save_to_disk(
        self,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """Write the data of each ``(name, data)`` to a file, and give its path.

        >>> import os, tempfile
        >>> from datapipes.iter import IterableWrapper
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dp = IterableWrapper([("a", b"1")]).save_to_disk("wb", lambda name: os.path.join(folder, name))
        ...     [os.path.basename(path) for path in dp]
        ['a']
        """
        from datapipes.iter.files.saving import Saver

        return Saver(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            filepath_fn,
            on_error=on_error,
            max_errors=max_errors,
        )

    def on_disk_cache(
        self,
        filepath_fn: Callable[[Any], str] | None = None,
        hash_dict: Mapping[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
        *,
        max_bytes: int | None = None,
        cache_dir: str | None = None,
    ) -> IterDataPipe[T_co]:
        """Run the stages up to ``end_caching`` only for elements whose files are not there.

        >>> import os, tempfile
        >>> from datapipes.iter import IterableWrapper
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dp = IterableWrapper(["a"]).on_disk_cache(lambda name: os.path.join(folder, name))
        ...     dp = dp.map(lambda name: (name, b"1")).end_caching(same_filepath_fn=True, skip_read=True)
        ...     [os.path.basename(path) for path in dp]
        ['a']
        """
        from datapipes.iter.caching.on_disk.holder import OnDiskCacheHolder

        return OnDiskCacheHolder(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            filepath_fn,
            hash_dict,
            hash_type,
            extra_check_fn,
            max_bytes=max_bytes,
            cache_dir=cache_dir,
        )

    def end_caching(
        self,
        mode: str = "wb",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """Save the ``(name, data)`` that were made since ``on_disk_cache``, and give the paths of all files.

        >>> import os, tempfile
        >>> from datapipes.iter import IterableWrapper
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dp = IterableWrapper(["a"]).on_disk_cache(lambda name: os.path.join(folder, name))
        ...     dp = dp.map(lambda name: (name, b"1")).end_caching(same_filepath_fn=True, skip_read=True)
        ...     [os.path.basename(path) for path in dp]
        ['a']
        """
        from datapipes.iter.caching.on_disk.ending import EndOnDiskCacheHolder

        return EndOnDiskCacheHolder(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            filepath_fn,
            same_filepath_fn=same_filepath_fn,
            skip_read=skip_read,
            timeout=timeout,
            on_error=on_error,
            max_errors=max_errors,
        )
