"""Check the URL of an object store, the value of store.remote."""

from importlib.util import find_spec
from urllib.parse import urlsplit

from ragsweep.core.errors import ConfigError, nearest

KEY = "store.remote"
SCHEMES = ("s3", "gs", "az", "file")


def check_remote(url: object) -> str:
    """Return the scheme of the URL of an object store, such as "s3".

    Raises ConfigError if ``url`` is not the URL of a supported object store, or if obstore is not installed.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        parts = None
    if parts is None or not parts.scheme:
        raise ConfigError(f"{KEY}: must be a URL such as s3://bucket/folder, or null, got {url!r}")
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"{KEY}: {parts.scheme}:// is not a supported object store{nearest(parts.scheme, SCHEMES)}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"{KEY}: must be only a location, such as s3://bucket/folder; credentials are read from the environment"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise ConfigError(f"{KEY}: must be a folder, as in file:///mnt/shared/store, got {url}")
    if parts.scheme != "file" and not parts.netloc:
        raise ConfigError(f"{KEY}: must name a bucket, as in {parts.scheme}://bucket/folder, got {url}")
    if find_spec("obstore") is None:
        raise ConfigError(f"{KEY}: obstore is not installed; pip install 'ragsweep[remote]'")
    return parts.scheme
