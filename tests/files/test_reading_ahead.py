"""Files that come before a program asks for them, because it opens a directory's files one after another."""

import pytest

from testsupport.waiting import until

NAMES = [f"f{number:02}" for number in range(12)]


@pytest.fixture
def start(servers):
    def run(*options, size=100_000):
        tiles = servers.storage / "tiles"
        tiles.mkdir(parents=True)
        for name in NAMES:
            (tiles / name).write_bytes(bytes(size))
        return servers.start(master=options)

    return run


def there(client):
    return [entry.path[-3:] for entry in client.entries("/tiles") if entry.state == "clean"]


def read(client, *numbers):
    for number in numbers:
        client.read(f"/tiles/{NAMES[number]}")


def test_the_second_file_in_order_brings_the_next_and_each_of_those_twice_as_many(start):
    client = start()
    read(client, 0)
    assert there(client) == NAMES[:1]
    read(client, 1)
    until(lambda: there(client) == NAMES[:3], "one file ahead")
    read(client, 2)
    until(lambda: there(client) == NAMES[:5], "two files ahead")
    read(client, 4)  # not every one must be opened
    until(lambda: there(client) == NAMES[:9], "four files ahead")
    read(client, 4, 4)
    assert there(client) == NAMES[:9]


def test_files_that_are_opened_in_another_order_bring_no_others(start):
    client = start()
    read(client, 8, 3, 6, 1)
    assert there(client) == [NAMES[number] for number in (1, 3, 6, 8)]


def test_nothing_comes_ahead_that_would_drive_out_what_came_before_it(start):
    client = start(size=3 << 20)  # an eighth of 64 MiB has room for two
    read(client, 0, 1, 2, 3)
    until(lambda: there(client) == NAMES[:6], "two files ahead")
    read(client, 4)
    until(lambda: there(client) == NAMES[:7], "two files ahead")


def test_it_can_be_switched_off(start):
    client = start("--files-ahead", "0")
    read(client, 0, 1, 2)
    assert there(client) == NAMES[:3]
