"""Small networks with random weights, laid out as the Hugging Face cache lays out real ones."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "my", "card", "is", "lost", "hello"]
README = "---\nlicense: apache-2.0\n---\n# A small network with random weights\n"
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TOWER = {**SMALL, "intermediate_size": 16}
SIDE = 28


def commit_of(repo: str, number: int = 0) -> str:
    return hashlib.sha1(f"{repo} {number}".encode()).hexdigest()


def publish(cache: Path, repo: str, folder: Path, number: int = 0) -> Path:
    """Copy a folder into a cache of the hub: blobs, a snapshot of links to them, and a ref."""
    home, commit = cache / f"models--{repo.replace('/', '--')}", commit_of(repo, number)
    snapshot = home / "snapshots" / commit
    (home / "blobs").mkdir(parents=True, exist_ok=True)
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / "main").write_text(commit)
    for path in (one for one in folder.rglob("*") if one.is_file()):
        blob = home / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copyfile(path, blob)
        link = snapshot / path.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    return snapshot


def _tokenizer() -> Any:
    from transformers import BertTokenizerFast

    vocabulary = {word: place for place, word in enumerate(WORDS)}
    return BertTokenizerFast(vocab=vocabulary, model_max_length=16)


def _texts() -> dict[str, Any]:
    size = {"vocab_size": len(WORDS), "max_position_embeddings": 16}
    return {**TOWER, **size, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}


def _pictures() -> dict[str, Any]:
    return {**TOWER, "image_size": SIDE, "patch_size": 14}


def bert(folder: Path) -> None:
    """Save a text encoder that says, as bge does, that its first token is the row."""
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(**_texts())).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    said = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True}
    said["pooling_mode_mean_tokens"] = False
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    prompts = {"prompts": {"query": "hello ", "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))


def dinov2(folder: Path) -> None:
    from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

    sizes = {**SMALL, "mlp_ratio": 2, "image_size": SIDE, "patch_size": 14}
    Dinov2Model(Dinov2Config(**sizes)).save_pretrained(folder)
    crop = {"height": SIDE, "width": SIDE}
    BitImageProcessor(size={"shortest_edge": 32}, crop_size=crop).save_pretrained(folder)


def siglip(folder: Path) -> None:
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    texts = {**_texts(), "projection_size": 16}
    SiglipModel(SiglipConfig(text_config=texts, vision_config=_pictures())).save_pretrained(folder)
    SiglipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def clip(folder: Path) -> None:
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    towers = {"text_config": _texts(), "vision_config": _pictures()}
    CLIPModel(CLIPConfig(**towers, projection_dim=8)).save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=SIDE).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


MODELS: dict[str, Callable[[Path], None]] = {
    "tiny/bert": bert,
    "tiny/dinov2": dinov2,
    "tiny/siglip": siglip,
    "tiny/clip": clip,
}


def save_all(folder: Path) -> dict[str, Path]:
    """Save every small model as its library does; return the folders by the id on the hub."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(0)
    for repo, save in MODELS.items():
        (folder / repo).mkdir(parents=True)
        save(folder / repo)
        (folder / repo / "README.md").write_text(README)
    return {repo: folder / repo for repo in MODELS}


class Hub(BaseHTTPRequestHandler):
    """Answer as the hub does, for the folders of `Hub.repos`; "gated" in a name is gated."""

    repos: ClassVar[dict[str, Path]] = {}

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        parts = path.removeprefix("api/models/").split("/")
        repo, rest = "/".join(parts[:2]), parts[2:]
        folder = self.repos.get(repo)
        if folder is None:
            return self._refuse(401, "RepoNotFound")
        if path.startswith("api/"):
            if rest and rest[0] == "revision" and rest[1] not in ("main", commit_of(repo)):
                return self._refuse(404, "RevisionNotFound")
            return self._answer(json.dumps(self._api(repo, folder, rest)).encode())
        if "gated" in repo:
            return self._refuse(403, "GatedRepo")
        return self._answer((folder / "/".join(rest[2:])).read_bytes(), repo)

    def _api(self, repo: str, folder: Path, rest: list[str]) -> Any:
        held = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in folder.rglob("*")
            if path.is_file()
        }
        if rest and rest[0] == "tree":
            kind = {"type": "file", "oid": "0" * 40}
            return [{"path": name, "size": size, **kind} for name, size in held.items()]
        return {
            "id": repo,
            "sha": commit_of(repo),
            "gated": "auto" if "gated" in repo else False,
            "cardData": {"license": "apache-2.0"},
            "siblings": [{"rfilename": name, "size": size} for name, size in held.items()],
        }

    def _answer(self, content: bytes, repo: str | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        if repo is not None:
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", commit_of(repo))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(repos: dict[str, Path]) -> Iterator[str]:
    """Serve folders as the hub does, on this machine; yield the address."""
    handler = type("Served", (Hub,), {"repos": repos})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
