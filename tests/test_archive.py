"""Files of models and checkpoints: their bytes, and what writing them takes."""

import hashlib
import io
import json
import os
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bopl._archive import DOCUMENT, Archive, read_archive, write_archive

MIB = 1 << 20


def as_one_string(archive):
    """Return the bytes of an archive, made all at once."""
    head = {"kind": archive.kind, "format": archive.format_number, "arrays": sorted(archive.arrays)}
    document = json.dumps({**head, "content": archive.document}, sort_keys=True, indent=1)
    members = {DOCUMENT: document.encode()}
    for name in sorted(archive.arrays):
        stream = io.BytesIO()
        np.save(stream, np.ascontiguousarray(archive.arrays[name]))
        members[f"{name}.npy"] = stream.getvalue()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, member in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(info, member)
        file.comment = b"0" * 64
    body = content.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def some_arrays():
    rng = np.random.default_rng(0)
    return {
        "rows": rng.normal(size=(100_000, 7)),
        "columns": np.asfortranarray(rng.normal(size=(200_001, 3)).round(1)),
        "flags": rng.random(1000) < 0.5,
        "strided": np.arange(100)[::3],
        "number": np.array(3.0),
        "no rows": np.zeros((0, 3)),
        "no columns": np.zeros((4, 0), np.int32),
    }


def test_arrays_packed_in_chunks_make_the_same_file_as_arrays_packed_whole(tmp_path):
    archive = Archive("policy", 1, {"facts": [1, 2]}, some_arrays())
    write_archive(tmp_path / "file", archive)
    assert (tmp_path / "file").read_bytes() == as_one_string(archive)


def test_rows_are_written_in_the_order_that_is_asked_for(tmp_path):
    array = some_arrays()["columns"]
    order = np.random.default_rng(1).permutation(len(array)).astype(np.int32)
    write_archive(tmp_path / "file", Archive("checkpoint", 1, {}, {"score": array}, {"score": order}))
    assert (tmp_path / "file").read_bytes() == as_one_string(Archive("checkpoint", 1, {}, {"score": array[order]}))
    np.testing.assert_array_equal(read_archive(tmp_path / "file", "checkpoint", 1).arrays["score"], array[order])


def test_writing_takes_no_copy_of_the_arrays(tmp_path):
    array = np.zeros((MIB, 8), order="F")  # 64 MiB
    order = np.arange(len(array), dtype=np.int32)[::-1]
    archive = Archive("checkpoint", 1, {}, {"score": array}, {"score": order})
    tracemalloc.start()
    try:
        write_archive(tmp_path / "file", archive)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_gets_the_same_bytes(tmp_path):
    archive = Archive("policy", 1, {}, {"numbers": np.arange(1000)})
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit((tmp_path / "pipe").read_bytes)
        write_archive(tmp_path / "pipe", archive)
    assert content.result() == as_one_string(archive)
