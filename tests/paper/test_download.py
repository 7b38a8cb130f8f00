"""Downloads, against a server on this machine."""

import hashlib
import http.server
import io
import json
import threading

import numpy as np
import pytest

from bopl_paper import dataset as datasets
from bopl_paper.dataset import SOURCES, Source, content_digest, load_dataset
from bopl_paper.download import OpenML

CONTEXT = np.arange(12, dtype=np.float32).reshape(6, 2)
LABEL = np.array([[1, 0], [0, 1], [1, 1], [1, 0], [0, 1], [1, 0]])


def file_bytes():
    buffer = io.BytesIO()
    np.savez(buffer, X=CONTEXT, Y=LABEL, label_names=np.array(["a", "b"]))
    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Yield (pages, address): a dict of what to serve by path, and where; no data is on disk."""
    pages: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = pages.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        monkeypatch.delenv("BOPL_DATA", raising=False)
        monkeypatch.delenv("BOPL_OFFLINE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        yield pages, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.fixture
def tiny(monkeypatch):
    """Register a tiny dataset that is in no folder."""

    def arrays(data, label):
        return {
            "X": data.astype(np.float32),
            "Y": (label == "TRUE").astype(np.uint8),
            "label_names": np.array(["a", "b"]),
        }

    source = Source(
        file="tiny.npz",
        sha256=hashlib.sha256(file_bytes()).hexdigest(),
        content_sha256=content_digest(CONTEXT, LABEL),
        read=datasets._read_multilabel,
        openml=OpenML(arrays, name="tiny", version=1, has_boolean_labels=True),
    )
    monkeypatch.setitem(SOURCES, "tiny", source)
    return source


@pytest.mark.usefixtures("tiny")
def test_a_mirror_sends_a_file_once_and_it_is_kept_in_the_cache(server, monkeypatch, tmp_path, capsys):
    pages, address = server
    monkeypatch.setenv("BOPL_DATA_URL", f"{address}/data/")
    pages["/data/tiny.npz"] = file_bytes()
    np.testing.assert_array_equal(load_dataset("tiny").context, CONTEXT)
    assert "downloading tiny.npz" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "bopl").iterdir()] == ["tiny.npz"]
    pages.clear()
    np.testing.assert_array_equal(load_dataset("tiny").reward, LABEL)


@pytest.mark.usefixtures("tiny")
def test_a_mirror_that_sends_other_bytes_is_refused_and_leaves_nothing_behind(server, monkeypatch, tmp_path):
    pages, address = server
    monkeypatch.setenv("BOPL_DATA_URL", address)
    pages["/tiny.npz"] = file_bytes()[:-1]
    with pytest.raises(ValueError, match=r"/tiny\.npz sent is damaged or another version: its SHA-256"):
        load_dataset("tiny")
    assert not list((tmp_path / "bopl").iterdir())


@pytest.mark.usefixtures("tiny")
def test_a_mirror_without_the_file_is_reported_with_file_folder_and_variable(server, monkeypatch, tmp_path):
    monkeypatch.setenv("BOPL_DATA_URL", server[1])
    with pytest.raises(
        FileNotFoundError, match=r"tiny\.npz is in none of .*HTTP Error 404.* BOPL_DATA to the folder"
    ) as caught:
        load_dataset("tiny")
    assert str(tmp_path / "bopl") in str(caught.value)


def serve_openml(pages, address, monkeypatch, label=LABEL):
    """Serve the pages that scikit-learn asks OpenML for."""
    from sklearn.datasets import _openml

    rows = "\n".join(
        ",".join([*map(str, x), *("TRUE" if value else "FALSE" for value in y)])
        for x, y in zip(CONTEXT.tolist(), label.tolist(), strict=True)
    )
    kinds = {"x1": "NUMERIC", "x2": "NUMERIC", "a": "{TRUE,FALSE}", "b": "{TRUE,FALSE}"}
    head = "@RELATION tiny\n" + "".join(f"@ATTRIBUTE {name} {kind}\n" for name, kind in kinds.items())
    arff = f"{head}@DATA\n{rows}\n".encode()
    description = {
        "id": "7", "name": "tiny", "version": "1", "status": "active", "format": "ARFF", "description": "",
        "url": f"{address}/tiny.arff", "md5_checksum": hashlib.md5(arff).hexdigest(),
    }  # fmt: skip
    columns = [
        {"index": str(number), "name": name, "data_type": kind, "is_target": target, "is_ignore": "false",
         "is_row_identifier": "false", "number_of_missing_values": "0"}
        for number, (name, kind, target) in enumerate(
            [("x1", "numeric", "false"), ("x2", "numeric", "false"), ("a", "nominal", "true"), ("b", "nominal", "true")]
        )
    ]  # fmt: skip
    found = {"data": {"dataset": [{"did": 7, "name": "tiny", "version": 1, "status": "active"}]}}
    answers = {
        "_SEARCH_NAME": ("/name/{}", "/name/tiny/data_version/1", found),
        "_DATA_INFO": ("/info/{}", "/info/7", {"data_set_description": description}),
        "_DATA_FEATURES": ("/features/{}", "/features/7", {"data_features": {"feature": columns}}),
        "_DATA_QUALITIES": (
            "/qualities/{}",
            "/qualities/7",
            {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "6"}]}},
        ),
    }
    for constant, (pattern, path, content) in answers.items():
        monkeypatch.setattr(_openml, constant, address + pattern)
        pages[path] = json.dumps(content).encode()
    pages["/tiny.arff"] = arff


@pytest.mark.usefixtures("tiny")
def test_openml_is_asked_where_there_is_no_mirror_and_its_answer_is_kept(server, monkeypatch, tmp_path):
    pages, address = server
    monkeypatch.delenv("BOPL_DATA_URL", raising=False)
    serve_openml(pages, address, monkeypatch)
    loaded = load_dataset("tiny")
    np.testing.assert_array_equal(loaded.context, CONTEXT)
    np.testing.assert_array_equal(loaded.reward, LABEL)
    pages.clear()
    np.testing.assert_array_equal(load_dataset("tiny").context, CONTEXT)
    assert (tmp_path / "bopl" / "tiny.npz").is_file()


@pytest.mark.usefixtures("tiny")
def test_another_version_from_openml_is_refused_by_its_contents_and_not_kept(server, monkeypatch, tmp_path):
    pages, address = server
    monkeypatch.delenv("BOPL_DATA_URL", raising=False)
    serve_openml(pages, address, monkeypatch, label=LABEL[::-1])
    with pytest.raises(ValueError, match=r"tiny\.npz is damaged or another version.* Nothing was kept"):
        load_dataset("tiny")
    assert list((tmp_path / "bopl").iterdir()) == []


def test_offline_the_error_names_the_file_the_folder_and_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("BOPL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BOPL_OFFLINE", "1")
    with pytest.raises(
        FileNotFoundError, match=r"covertype\.npz .* BOPL_OFFLINE forbids downloads.* BOPL_DATA"
    ) as caught:
        load_dataset("covertype")
    assert str(tmp_path / "data") in str(caught.value)
    assert str(tmp_path / "bopl") in str(caught.value)


@pytest.mark.usefixtures("paper_data")
@pytest.mark.parametrize("name", ["scene", "tmc2007_500", "tmc2007_500_v1"])
def test_contents_on_disk_have_the_digest_a_download_is_held_to(name):
    source = SOURCES[name]
    content = datasets._read_checked(datasets._find(source), source)
    assert content_digest(*content[:2]) == source.content_sha256
    assert len({source.content_sha256 for source in SOURCES.values()}) == 5
