"""Phases without announcements: kernels' counters, and when their traffic counts."""

import os

import pytest

from bbflow.errors import ConfigError
from bbflow.phases import observe
from bbflow.phases.counters import (
    Traffic,
    parse_diskstats,
    parse_job_stats,
    parse_llite_stats,
    parse_mountstats,
)
from bbflow.phases.observing import CounterSource, Detector, TrafficLimits

MOUNTSTATS = r"""device sysfs mounted on /sys with fstype sysfs
device server:/export mounted on /pfs\040one with fstype nfs4 statvers=1.1
>opts:>rw,vers=4.2,rsize=1048576
>age:>1234
>bytes:>100 200 0 0 300 400 7 8
>RPC iostats version: 1.1  p/v: 100003/4 (nfs)
>        READ: 5 5 0 1040 2097652 0 12 12 0
device tmpfs mounted on /tmp with fstype tmpfs
""".replace(">", "\t")
LLITE = """snapshot_time             1700000000.123456789 secs.nsecs
start_time                1600000000.000000000 secs.nsecs
read_bytes                12 samples [bytes] 4096 1048576 5242880 12345678901
write_bytes               3 samples [bytes] 10 20 45
read                      12 samples [usecs] 1 100 500
open                      5 samples [usecs] 1 100 500
"""
JOB_STATS = """job_stats:
- job_id:          ocean.1001
  snapshot_time:   1409778251
  read_bytes:      { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  write_bytes:     { samples:           1, unit: bytes, min: 1048576, max: 1048576, sum:         1048576 }
  getattr:         { samples:           0, unit:  reqs }
- job_id:          "cp.0"
  snapshot_time:   1409778200
  read_bytes:      { samples:           2, unit: bytes, min:       1, max:       6, sum:               7, sumsq: 37 }
  write_bytes:     { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
"""
DISKSTATS = """   8       0 sda 100 5 2000 10 50 6 4000 20 0 30 40 0 0 0 0 1 2
   8       1 sda1 1 2
 259       0 nvme0n1 1 0 8 0 2 0 16 0 0 0 0
"""


def test_nfs_counts_what_went_over_the_network():
    assert parse_mountstats(MOUNTSTATS) == {"/pfs one": Traffic(300, 400)}


def test_lustre_clients_count_bytes_not_microseconds():
    assert parse_llite_stats(LLITE) == Traffic(5242880, 45)
    assert parse_llite_stats("") == Traffic()


def test_lustre_servers_count_by_job():
    assert parse_job_stats(JOB_STATS) == {"ocean.1001": Traffic(0, 1048576), "cp.0": Traffic(7, 0)}
    assert parse_job_stats("job_stats:\n") == {}


def test_disks_count_sectors_of_512_bytes():
    assert parse_diskstats(DISKSTATS) == {"sda": Traffic(2000 * 512, 4000 * 512), "nvme0n1": Traffic(4096, 8192)}


def test_this_machines_own_counters_can_be_read():
    with open("/proc/diskstats") as file:
        disks = parse_diskstats(file.read())
    with open("/proc/self/mountstats") as file:
        parse_mountstats(file.read())
    if disks:
        assert observe(f"disk:{next(iter(disks))}").now() == []


def detector():
    return Detector("ocean-model", "pfs", TrafficLimits(busy_bytes_per_s=100, quiet_s=2))


def test_a_phase_lasts_from_the_first_busy_interval_until_it_was_quiet_long_enough():
    seen, written, looks = detector(), 0, []
    for now_s, rate in enumerate([0, 0, 500, 500, 0, 500, 0, 0, 0, 0]):
        written += rate
        phase = seen.look(float(now_s), Traffic(0, written), 0)
        looks.append(phase and phase.began_s)
    assert looks == [None, None, 1.0, 1.0, 1.0, 1.0, 1.0, None, None, None]


def test_half_the_traffic_keeps_a_phase_but_does_not_begin_one():
    seen = detector()
    looks = [seen.look(float(n), Traffic(0, total), 0) for n, total in enumerate([0, 60, 120, 520, 580, 640, 700, 760])]
    assert [look is not None for look in looks] == [False, False, False, True, True, True, True, True]


def test_our_own_reading_is_no_phase_but_others_beside_it_are():
    seen = detector()
    looks = [seen.look(float(n), Traffic(1000 * n, 0), 1000 * n) for n in range(5)]
    assert looks == [None] * 5
    assert seen.look(5.0, Traffic(7000, 0), 5000) is not None


def test_counters_that_begin_anew_are_no_phase():
    seen = detector()
    seen.look(0.0, Traffic(10**9, 10**9), 0)
    assert seen.look(1.0, Traffic(0, 0), 0) is None


def test_counters_are_read_once_an_interval():
    clock = [0.0]
    reads = []
    source = CounterSource(
        lambda: reads.append(1) or {"job": Traffic()}, "pfs", TrafficLimits(interval_s=1), lambda: clock[0]
    )
    for now_s in (0.0, 0.5, 0.9, 1.0, 1.5):
        clock[0] = now_s
        source.now()
    assert len(reads) == 2


def test_what_to_observe_is_found_by_its_kind_and_name(tmp_path):
    files = {
        "proc/self/mountstats": MOUNTSTATS,
        "proc/diskstats": DISKSTATS,
        "sys/kernel/debug/lustre/llite/scratch-ffff8800/stats": LLITE,
        "proc/fs/lustre/obdfilter/scratch-OST0000/job_stats": JOB_STATS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for what in ("nfs:/pfs one", "disk:sda", "lustre:scratch", "jobs:scratch"):
        assert observe(what, root=tmp_path).now() == []
    for wrong in ("nfs:/other", "disk:sdb", "lustre:home", "jobs:home"):
        with pytest.raises(ConfigError, match="no such counters"):
            observe(wrong, root=tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'lustre:'"):
        observe("luster:scratch", root=tmp_path)
    with pytest.raises(ConfigError, match="can't observe disk:sda"):
        observe("disk:sda", root=tmp_path / os.devnull.strip("/"))
