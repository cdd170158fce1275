"""Where the bed's S3 server is, and how a client names itself."""

HOSTS = {"storage": "10.77.0.1", "compute": "10.77.0.2", "hpc": "10.77.0.3"}
"""Each host's address."""
PORT = 9000
ACCESS_KEY, SECRET_KEY = "bbflow-bed", "only-inside-the-bed"
BUCKET = "pfs"
ENDPOINT = f"http://{HOSTS['storage']}:{PORT}"


def environment() -> dict[str, str]:
    """Environment variables by which any S3 client finds the bed's server."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": ENDPOINT,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
