"""What many programs do on a mount at once: replies of its master come on several connections, in any order."""

import os
from concurrent.futures import ThreadPoolExecutor

ROUNDS = 400


def test_what_a_file_was_changed_to_is_seen_while_others_remove_files(pair):
    where, _ = pair

    def remove(worker):
        for number in range(ROUNDS):
            path = where / f"removed{worker}-{number}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.unlink(path)

    def change(worker):
        seen = set()
        for number in range(ROUNDS):
            path = where / f"changed{worker}-{number}"
            path.write_bytes(b"0123456789")
            path.chmod(0o600 + number % 0o100)
            found = path.stat()
            seen.add((found.st_size, found.st_mode & 0o777 == 0o600 + number % 0o100, path.read_bytes()))
        return seen

    with ThreadPoolExecutor(8) as pool:
        removing = [pool.submit(remove, worker) for worker in range(4)]
        changing = [pool.submit(change, worker) for worker in range(4)]
        assert set().union(*(each.result() for each in changing)) == {(10, True, b"0123456789")}
        for each in removing:
            each.result()
