"""Run by the Python that has SimGrid 3: reads links and transfers as JSON, writes when each transfer ended."""

import json
import sys

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone, this_actor

OPTIONS = ["--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--log=root.thres:critical"]


def send(name, begins_s, size_bytes):
    this_actor.sleep_for(begins_s)
    Mailbox.by_name(name).put("nothing", size_bytes)


def receive(name, ends):
    Mailbox.by_name(name).get()
    ends[int(name)] = Engine.clock


def main():
    given = json.load(sys.stdin)
    engine = Engine(["oracle", *OPTIONS])
    zone = NetZone.create_full_zone("zone")
    links = [zone.create_link(f"link{i}", rate).set_latency(0).seal() for i, rate in enumerate(given["links"])]
    ends = [0.0] * len(given["transfers"])
    for number, (begins_s, size_bytes, through) in enumerate(given["transfers"]):
        source, target = (zone.create_host(f"{end}{number}", 1e9).seal() for end in ("from", "to"))
        route = [LinkInRoute(links[i]) for i in through]
        zone.add_route(source.netpoint, target.netpoint, None, None, route, True)
        Actor.create(f"send{number}", source, send, str(number), begins_s, size_bytes)
        Actor.create(f"receive{number}", target, receive, str(number), ends)
    zone.seal()
    engine.run()
    json.dump(ends, sys.stdout)


main()
