"""A consumer that looks at nothing: a step is done as soon as it is there."""

from bbflow.landing.client import NodeClient
from bbflow.landing.replies import AttachReply, Shown
from bbflow.landing.requests import AttachRequest, DoneRequest, WatchRequest
from bbflow.net.contact import NodeAddress
from bbflow.net.verdicts import DoneReply


def free_steps(node: NodeAddress, stream: str, steps: int) -> None:
    """Free the first `steps` steps of a stream, each when it has landed."""
    with NodeClient(node) as client:
        epoch = client.request(AttachRequest(stream=stream, consumers=("bench",)), AttachReply).epoch
        change, last = -1, -1
        while last < steps - 1:
            shown = client.request(
                WatchRequest(stream=stream, after=last, change=change, limit=100, timeout_s=5.0), Shown
            )
            change = shown.change
            if shown.last > last:
                last = shown.last
                done = DoneRequest(stream=stream, consumer="bench", epoch=epoch, step=last, checkpoint=b"")
                client.request(done, DoneReply)
