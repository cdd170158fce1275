"""A consumer that looks at nothing: a step is done as soon as it is there."""

from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress


def free_steps(node: NodeAddress, stream: str, steps: int) -> None:
    """Free the first `steps` steps of a stream, each when it has landed."""
    with NodeClient(node) as client:
        epoch = client.request("attach", stream=stream, consumers=["bench"])["epoch"]
        change, last = -1, -1
        while last < steps - 1:
            shown = client.request("watch", 5.0, stream=stream, after=last, change=change, limit=100)
            change = shown["change"]
            if shown["last"] > last:
                last = shown["last"]
                keys = {"stream": stream, "consumer": "bench", "epoch": epoch, "checkpoint": b""}
                client.request("done", step=last, **keys)
