"""Build the S3 server, once. A later run finds it in the cache and does nothing."""

from dev.s3.build import gateway

gateway()
