"""Spark's state store files, read without Spark: damage, foreign formats, and files that go while they are read."""

from __future__ import annotations

import errno
import io
import os
import shutil
import struct
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("lz4")
pytest.importorskip("rocksdict")

import lz4.block
import xxhash
import zstandard

from holdfast.checkpoint.blob_reader import BlobReader
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.store import rocks
from holdfast.checkpoint.store.archive import read_snapshot
from holdfast.checkpoint.store.changelog import first_label, read_changelog
from holdfast.checkpoint.store.rows import blob_key, blob_of_value, key_label, key_of_blob
from holdfast.checkpoint.store.streams import plain_bytes
from holdfast.errors import CheckpointError, CorruptState, NeedsSpark
from holdfast.ops import StateReader, checkpoint_show, checkpoint_verify, state_ls, state_show

STORED = Path(__file__).parent.parent / "stored" / "sessions@0.1.tar.gz"
LAST = 1
HEADER = b"\x00\x02v2"
PUT, DELETE, END = b"\x01", b"\x10", b"\x00"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A checkpoint of an earlier version, with a snapshot and a changelog after it in each of two partitions."""
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(STORED) as archive:
        archive.extractall(folder, filter="data")
    return folder / "sessions" / "checkpoint"


@pytest.fixture
def path(original, tmp_path):
    shutil.copytree(original, tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def blobs_of(path, batch=LAST, files=None):
    place = open_checkpoint(None, str(path)) if files is None else Checkpoint(files, str(path))
    return {label: dict(blobs.items()) for label, blobs in BlobReader(place).groups(0, batch)}


def outcome(path):
    """The blobs, or what kind of error there is. One about damage names a file."""
    try:
        return blobs_of(path)
    except CorruptState as error:
        return "damaged" if str(path) in str(error) else f"no file is named: {error}"
    except NeedsSpark:
        return "foreign"


def put(file, content):
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def lz4_stream(plain, end=True):
    body = lz4.block.compress(plain, store_size=False)
    checksum = xxhash.xxh32_intdigest(plain, 0x9747B28C) & 0x0FFFFFFF
    blocks = struct.pack("<8sBiiI", b"LZ4Block", 0x26, len(body), len(plain), checksum) + body
    return blocks + (struct.pack("<8sBiiI", b"LZ4Block", 0x16, 0, 0, 0) if end else b"")


def entry(kind, key, value):
    return kind + struct.pack(">i", len(key)) + key + struct.pack(">i", -1 if value is None else len(value)) + (value or b"")


class TestRows:
    @given(st.integers(0, 65535), st.integers(0, 2**31 - 1), st.text(st.characters(codec="utf-8"), max_size=40))
    def test_a_key_comes_back(self, family, label, name):
        key = key_of_blob(family, label, name)
        assert blob_key(key) == (family, label, name)
        assert key_label(key) == label

    @given(st.binary(max_size=120))
    def test_other_bytes_are_no_key(self, data):
        found = blob_key(data)
        assert found is None or key_of_blob(*found) == data

    @given(st.binary(max_size=120))
    def test_other_bytes_are_no_value(self, data):
        blob = blob_of_value(data)
        assert blob is None or blob in data

    def test_the_key_of_a_timer_is_no_blobs_key(self):
        timer = key_of_blob(3, 2, "")[:40] + bytes(8) + struct.pack("<q", 65000)
        assert key_label(timer) == 2
        assert blob_key(timer) is None


class TestChangelogs:
    @pytest.mark.parametrize("compress", [lz4_stream, zstandard.compress], ids=["lz4", "zstd"])
    def test_both_compressions(self, compress):
        plain = HEADER + entry(PUT, b"a", b"1") + entry(DELETE, b"b", None) + entry(PUT, b"c", b"") + END
        assert list(read_changelog(compress(plain), "x")) == [(b"a", b"1"), (b"b", None), (b"c", b"")]

    @pytest.mark.parametrize(
        ("plain", "error"),
        [
            (b"\x00\x02v1" + END, NeedsSpark),
            (HEADER + entry(b"\x11", b"a", b"1") + END, NeedsSpark),
            (HEADER, CorruptState),
            (HEADER + PUT, CorruptState),
            (HEADER + entry(PUT, b"a", b"1"), CorruptState),
            (HEADER + entry(PUT, b"a", b"1") + END + b"x", CorruptState),
            (HEADER + entry(PUT, b"a", None) + END, CorruptState),
            (HEADER + entry(DELETE, b"a", b"1") + END, CorruptState),
            (HEADER + PUT + struct.pack(">i", 2**31 - 1) + b"a" + END, CorruptState),
            (HEADER + PUT + struct.pack(">i", -5) + b"a" + END, CorruptState),
        ],
    )
    def test_what_is_not_one(self, plain, error):
        with pytest.raises(error, match="some/path"):
            list(read_changelog(lz4_stream(plain), "some/path"))

    def test_unknown_compression(self):
        with pytest.raises(NeedsSpark):
            plain_bytes(b"ZV\x01\x00\x05hello", "x")

    def test_nothing_large_is_made_of_little(self):
        bomb = struct.pack("<8sBiiI", b"LZ4Block", 0x26, 10, 1 << 26, 0) + bytes(10)
        with pytest.raises(CorruptState, match="another size"):
            plain_bytes(bomb, "x")
        with pytest.raises(CorruptState, match="more than any changelog"):
            plain_bytes(zstandard.compress(bytes(300 << 20)), "x")

    def test_a_stream_without_its_end(self):
        with pytest.raises(CorruptState, match="cut short"):
            plain_bytes(lz4_stream(HEADER + END, end=False), "x")

    def test_the_first_label_needs_only_the_beginning(self):
        stream = lz4_stream(HEADER + entry(PUT, key_of_blob(2, 7, "head"), b"x") + END)
        assert first_label(stream) == first_label(stream[:-21] + b"garbage") == 7


class TestSnapshots:
    def archive(self, description, **files):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("metadata", description)
            for name, data in files.items():
                archive.writestr(name, data)
        return content.getvalue()

    @pytest.mark.parametrize("description", ["v1\n{}", 'v1\n{"sstFiles":[]}'])
    def test_an_empty_one(self, description):
        assert read_snapshot(self.archive(description), "x").blobs_family is None

    @pytest.mark.parametrize(
        "description",
        [
            "v1",
            "v1\n[]",
            "v1\n{",
            'v1\n{"sstFiles":[{"sizeBytes":1,"dfsSstFileName":"../a","localFileName":"1.sst"}]}',
            'v1\n{"sstFiles":[{"sizeBytes":1,"dfsSstFileName":"a","localFileName":"../1.sst"}]}',
            'v1\n{"sstFiles":[{"sizeBytes":-1,"dfsSstFileName":"a","localFileName":"1.sst"}]}',
        ],
    )
    def test_a_damaged_one(self, description):
        with pytest.raises(CorruptState):
            read_snapshot(self.archive(description), "x")

    def test_foreign_ones(self):
        with pytest.raises(NeedsSpark):
            read_snapshot(self.archive("v2\n{}"), "x")
        with pytest.raises(NeedsSpark):
            read_snapshot(self.archive("v1\n{}", **{"../../etc/passwd": b""}), "x")

    def test_a_bomb(self):
        with pytest.raises(CorruptState, match="too large"):
            read_snapshot(self.archive("v1\n{}", CURRENT=bytes(65 << 20)), "x")


class TestDamage:
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_state_is_whole_or_an_error_is_raised(self, original, data):
        """Any file of the state cut short, or with a bit that flipped."""
        expected = blobs_of(original)
        files = sorted(file for file in original.glob("state/0/?/**/*") if file.is_file() and ".crc" not in file.name)
        name = data.draw(st.sampled_from([str(file.relative_to(original)) for file in files]))
        content = (original / name).read_bytes()
        if data.draw(st.booleans()):
            changed = content[: data.draw(st.integers(0, max(0, len(content) - 1)))]
        else:
            at = data.draw(st.integers(0, max(0, len(content) - 1)))
            flipped = bytes([content[at] ^ 1 << data.draw(st.integers(0, 7))]) if content else b""
            changed = content[:at] + flipped + content[at + 1 :]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "checkpoint"
            shutil.copytree(original, copy)
            put(copy / name, changed)
            assert outcome(copy) in (expected, "damaged", "foreign")

    def test_the_damaged_file_is_named(self, path):
        put(path / "state/0/1/2.changelog", (path / "state/0/1/2.changelog").read_bytes()[:-1])
        with pytest.raises(CorruptState, match=r"state/0/1/2\.changelog' is damaged"):
            blobs_of(path)
        found = checkpoint_verify(None, str(path))
        assert [problem.path for problem in found.problems] == [str(path / "state/0/1/2.changelog")]

    def test_a_table_of_another_size(self, path):
        (table,) = (path / "state/0/0/SSTs").glob("[0-9]*.sst")
        put(table, table.read_bytes() + b"x")
        with pytest.raises(CorruptState, match="bytes where its snapshot says"):
            blobs_of(path)


class TestForeign:
    @pytest.mark.parametrize(
        "setting",
        [
            '"spark.sql.streaming.stateStore.rowChecksum.enabled":"true"',
            '"spark.sql.streaming.stateStore.encodingFormat":"avro"',
            '"spark.sql.streaming.stateStore.rocksdb.formatVersion":"7"',
        ],
    )
    def test_settings_that_change_the_format(self, path, setting):
        offsets = path / "offsets" / str(LAST)
        name = setting.partition(":")[0]
        before = offsets.read_text()
        start = before.index(name)
        put(offsets, (before[:start] + setting + before[before.index('"', start + len(name) + 2) + 1 :]).encode())
        with pytest.raises(NeedsSpark, match="has the format"):
            blobs_of(path)
        with pytest.raises(NeedsSpark) as refused:
            state_ls(None, str(path))
        assert "session" in refused.value.todo

    def test_the_format_with_a_file_for_each_attempt_is_no_damage(self, path):
        for file in [*path.glob("state/0/0/*.changelog"), *path.glob("state/0/0/*.zip")]:
            file.rename(file.with_name(f"{file.stem}_4acc680e-2eb7-496e-9e4c-9e792dc79c32{file.suffix}"))
        for look in (state_ls, checkpoint_show, checkpoint_verify):
            with pytest.raises(CheckpointError, match="checkpoint format 2") as refused:
                look(None, str(path))
            assert not isinstance(refused.value, CorruptState)

    def test_a_state_variable_that_expires(self, path):
        metadata = path / "state/0/_metadata/v2/0"
        put(
            metadata,
            metadata.read_bytes().replace(b'MapState\\",\\"ttlEnabled\\":false', b'MapState\\",\\"ttlEnabled\\":true'),
        )
        with pytest.raises(NeedsSpark, match="unknown format"):
            blobs_of(path)

    def test_a_path_elsewhere(self):
        with pytest.raises(NeedsSpark, match="cannot be read without Spark"):
            state_show(None, "s3a://bucket/checkpoint")


class Removing(LocalFiles):
    """Removes files at the moment somebody reads one, as a running job does."""

    def __init__(self, at, *names):
        self._at = at
        self._names = names

    def read(self, path):
        if path.endswith(self._at) and self._names:
            for name in self._names:
                Path(path).with_name(name).unlink()
            self._names = ()
        return super().read(path)


class TestRunningJobs:
    def test_a_snapshot_that_goes_is_not_needed(self, path):
        """The changelogs before it are still there."""
        expected = blobs_of(path)
        assert blobs_of(path, files=Removing("/0/1.zip", "1.zip")) == expected
        assert not (path / "state/0/0/1.zip").exists()

    def test_a_micro_batch_that_goes(self, path):
        with pytest.raises(CheckpointError, match="was removed while it was read"):
            blobs_of(path, files=Removing("/1/2.changelog", "2.changelog"))

    def test_a_table_that_goes(self, path):
        expected = blobs_of(path)
        for table in (path / "state/0/0/SSTs").iterdir():
            table.unlink()
        with pytest.raises(CorruptState, match="is missing"):
            blobs_of(path)
        (path / "state/0/0/1.zip").unlink()
        assert blobs_of(path) == expected

    def test_a_table_that_goes_while_its_snapshot_is_opened(self, path, monkeypatch):
        """A table on another file system than the private folder has no link there that would keep it."""
        expected, fill = blobs_of(path), rocks._fill

        def without_links(*_):
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        def fill_and_remove(*arguments):
            fill(*arguments)
            shutil.rmtree(path / "state/0/0/SSTs", ignore_errors=True)
            (path / "state/0/0/1.zip").unlink(missing_ok=True)

        monkeypatch.setattr(os, "link", without_links)
        monkeypatch.setattr(rocks, "_fill", fill_and_remove)
        assert blobs_of(path) == expected

    def test_a_folder_that_goes_while_it_is_listed(self, tmp_path, monkeypatch):
        """As if it had not been there."""
        folder, listed, state = tmp_path / "folder", os.listdir, os.stat
        folder.mkdir()

        def list_late(path):
            folder.rmdir()
            return listed(path)

        monkeypatch.setattr(os, "listdir", list_late)
        assert LocalFiles().entries(str(folder)) is None
        monkeypatch.undo()

        def look_late(path, **how):
            if path == str(folder):
                folder.rmdir()
            return state(path, **how)

        folder.mkdir()
        monkeypatch.setattr(os, "stat", look_late)
        assert LocalFiles().info(str(folder)) is None

    def test_state_that_is_replaced(self, path):
        class Replacing(LocalFiles):
            def read(self, name):
                if name.endswith("/1/2.changelog"):
                    os.utime(path / "state", (1, 1))
                return super().read(name)

        with pytest.raises(CheckpointError, match="was replaced while it was read"):
            blobs_of(path, files=Replacing())

    def test_nothing_is_written_or_left(self, path, tmp_path, monkeypatch):
        private = tmp_path / "private"
        private.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(private))
        before = {file: (file.stat().st_mtime_ns, file.stat().st_nlink) for file in path.rglob("*")}
        blobs_of(path)
        assert {file: (file.stat().st_mtime_ns, file.stat().st_nlink) for file in path.rglob("*")} == before
        assert list(private.iterdir()) == []

    def test_without_hard_links(self, path, monkeypatch):
        expected = blobs_of(path)

        def refused(*arguments):
            raise PermissionError("no links here")

        monkeypatch.setattr(os, "link", refused)
        assert blobs_of(path) == expected


class TestReaders:
    def test_little_memory_gives_the_same(self, original):
        large, small = StateReader(str(original)), StateReader(str(original), cache_bytes=1)
        for step in large.steps():
            page = large.page(step.name)
            assert page.keys
            assert small.page(step.name) == page == large.page(step.name)
            assert small.count(step.name) == large.count(step.name) == len(page.keys)

    def test_what_is_decoded_is_used_again(self, original, monkeypatch):
        reader = StateReader(str(original))
        (step,) = reader.steps()
        page = reader.page(step.name)
        monkeypatch.setattr(BlobReader, "groups", None)
        assert reader.page(step.name) == page
        assert reader.key(step.name, page.keys[0].key) == page.keys[0].cells
