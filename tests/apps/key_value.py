#!/usr/bin/python3
"""LMDB and LevelDB under load, checked: every batch that was reported durable is there, whole, and nothing else.

    key_value.py load ENGINE DIR LOG [BATCHES]      writes batches and notes each in LOG once it is durable, for ever without BATCHES
    key_value.py check ENGINE DIR LOG               compares
ENGINE: lmdb, lmdb-map (written to through its mapping), leveldb.
"""
import hashlib
import os
import sys

PER_BATCH = 200


def value_of(batch, n):
    digest = hashlib.blake2b(f"{batch}.{n}".encode()).digest()
    return digest * (1 + (batch * 7 + n) % 40)


def key_of(batch, n):
    return hashlib.md5(f"{batch}.{n}".encode()).hexdigest().encode()


class Lmdb:
    def __init__(self, path, mapped):
        import lmdb
        self.env = lmdb.open(path, map_size=1 << 30, writemap=mapped)

    def write(self, puts, deletes):
        with self.env.begin(write=True) as transaction:
            for key, value in puts:
                transaction.put(key, value)
            for key in deletes:
                transaction.delete(key)

    def all(self):
        with self.env.begin() as transaction:
            return {bytes(key): bytes(value) for key, value in transaction.cursor()}

    def close(self):
        self.env.close()


class LevelDb:
    def __init__(self, path):
        import plyvel
        self.db = plyvel.DB(path, create_if_missing=True, paranoid_checks=True, write_buffer_size=1 << 20)

    def write(self, puts, deletes):
        with self.db.write_batch(transaction=True, sync=True) as batch:
            for key, value in puts:
                batch.put(key, value)
            for key in deletes:
                batch.delete(key)

    def all(self):
        return dict(self.db.iterator(verify_checksums=True))

    def close(self):
        self.db.close()


def open_engine(name, path):
    os.makedirs(path, exist_ok=True)
    return LevelDb(path) if name == "leveldb" else Lmdb(path, name == "lmdb-map")


# What batch b writes: its own keys; every third batch also goes away again, with the one behind the next.
def change(batch):
    puts = [(key_of(batch, n), value_of(batch, n)) for n in range(PER_BATCH)]
    deletes = [key_of(batch - 2, n) for n in range(PER_BATCH)] if batch % 3 == 2 else []
    return puts, deletes


def expected(batches):
    contents = {}
    for batch in range(batches):
        puts, deletes = change(batch)
        contents.update(puts)
        for key in deletes:
            contents.pop(key, None)
    return contents


def noted(log):
    return sum(1 for _ in open(log, "rb")) if os.path.exists(log) else 0


def load(engine, log, most):
    batch = noted(log)
    with open(log, "ab", buffering=0) as notes:
        while batch < most:
            engine.write(*change(batch))
            batch += 1
            notes.write(b"%d\n" % batch)


def check(engine, log):
    durable = noted(log)
    found = engine.all()
    for batches in (durable, durable + 1):  # one may have been written and not noted
        if found == expected(batches):
            with open(log, "ab", buffering=0) as notes:
                notes.write(b"found\n" * (batches - durable))
            print(f"   {batches} batches, {len(found)} keys, as they should be")
            return
    sys.exit(f"{durable} batches are durable, and the {len(found)} keys found are not theirs")


def main():
    what, name, path, log = sys.argv[1:5]
    engine = open_engine(name, path)
    if what == "load":
        load(engine, log, int(sys.argv[5]) if len(sys.argv) > 5 else 1 << 60)
    else:
        check(engine, log)
    engine.close()


main()
