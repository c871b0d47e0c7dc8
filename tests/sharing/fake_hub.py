"""As much of the Hugging Face Hub as ``huggingface_hub`` needs to push and pull models, on this machine alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_a_secret_that_nobody_prints"
OWNER = "somebody"


@dataclass
class Repo:
    """One model repository: every commit holds all of its files."""

    private: bool
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)

    def add(self, files: dict[str, bytes]) -> str:
        """A commit with these files; returns its hash."""
        sha = hashlib.sha1(f"{len(self.commits)}{sorted(files)}".encode()).hexdigest()
        self.commits.append((sha, files))
        return sha

    @property
    def files(self) -> dict[str, bytes]:
        """At the newest commit."""
        return self.commits[-1][1]

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit that a revision means."""
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit[0] == revision), None)


@dataclass
class Hub:
    """What the server keeps, and what it was asked."""

    address: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    """Paths whose content changes on the way."""

    def repo(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repo:
        """A repository that is there already."""
        made = self.repos[name] = Repo(private)
        made.add(files)
        return made


@contextmanager
def hub() -> Iterator[Hub]:
    """A running server."""
    kept = Hub()

    class Handler(_Handler):
        hub = kept

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Head and body leave together: in two pieces, the second waits for the first to be acknowledged."""
    hub: Hub

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        path = self._path()
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._info(found[1], found[2] or "main")
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[2], found[3])
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)(?:/.*)?", path):
            self._json([])
        else:
            self._json({"error": f"no {path}"}, 404)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        path, body = self._path(), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path != "/api/validate-yaml" and not self._may_write():
            self._json({"error": "Invalid credentials in Authorization header"}, 401)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._json({"warnings": [], "errors": []})
        elif re.fullmatch(r"/api/models/[^/]+/[^/]+/preupload/main", path):
            large = (".safetensors", ".onnx")
            files = [
                {
                    "path": one["path"],
                    "shouldIgnore": False,
                    "uploadMode": "lfs" if one["path"].endswith(large) else "regular",
                }
                for one in json.loads(body)["files"]
            ]
            self._json({"files": files})
        elif path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.hub.address}/upload/{one['oid']}", "header": {}}}}
                for one in json.loads(body)["objects"]
            ]
            self._json({"transfer": "basic", "objects": objects})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            self._commit(found[1], [json.loads(line) for line in body.splitlines() if line.strip()])
        else:
            self._json({"error": f"no {path}"}, 404)

    def do_PUT(self) -> None:
        path, body = self._path(), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        oid = path.removeprefix("/upload/")
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.objects[oid] = body
        self._json({})

    def _create(self, told: dict[str, Any]) -> None:
        name = f"{told.get('organization') or OWNER}/{told['name']}"
        if not name.startswith(f"{OWNER}/"):
            self._json({"error": "You don't have the rights to create a model under this namespace"}, 403)
            return
        status = 409 if name in self.hub.repos else 200
        if status == 200:
            private = bool(told.get("private")) or told.get("visibility") == "private"
            self.hub.repo(name, {".gitattributes": b""}, private=private)
        self._json({"url": f"{self.hub.address}/{name}", "name": name, "id": name}, status)

    def _info(self, name: str, revision: str) -> None:
        repo = self._readable(name)
        if repo is None:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            return
        commit = repo.at(revision)
        if commit is None:
            self._json({"error": f"Invalid rev id: {revision}"}, 404, {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [{"rfilename": path, "size": len(data)} for path, data in commit[1].items()]
        told = {
            "id": name,
            "modelId": name,
            "sha": commit[0],
            "private": repo.private,
            "siblings": siblings,
            "tags": [],
        }
        self._json(told)

    def _file(self, name: str, revision: str, path: str) -> None:
        repo = self._readable(name)
        commit = repo.at(revision) if repo is not None else None
        if commit is None or path not in commit[1]:
            self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        data = commit[1][path]
        if path in self.hub.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        self._send(data, 200, {"ETag": etag, "X-Repo-Commit": commit[0], "Content-Type": "application/octet-stream"})

    def _commit(self, name: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self.hub.repos[name].files)
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = self.hub.repos[name].add(files)
        self._json({"success": True, "commitOid": sha, "commitUrl": f"{self.hub.address}/{name}/commit/{sha}"})

    def _path(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        if "Authorization" in self.headers:
            self.hub.tokens.add(self.headers["Authorization"])
        return path

    def _may_write(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _readable(self, name: str) -> Repo | None:
        repo = self.hub.repos.get(name)
        return repo if repo is not None and (not repo.private or self._may_write()) else None

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        told = {"Content-Type": "application/json", **(headers or {})}
        self._send(json.dumps(value).encode(), status, told)

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
