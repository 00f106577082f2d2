"""What a bank says about itself, and the digest that ties the words to the numbers."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import msgspec
import numpy as np

from firthshot.errors import BankError, reason

Split = Literal["base", "val", "novel"]
SPLITS: tuple[Split, ...] = ("base", "val", "novel")
FORMAT = 1
_HASH_BLOCK = 1 << 24


class BankMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describe a bank: where its features come from and which class belongs to which split.

    Attributes
    ----------
    name : str
        Name of the bank.
    dataset, backbone : str
        What was encoded, and by what.
    classes : list of str
        Class names; a label is an index into this list. The same name may occur in two splits
        (the doctor then says so) but not twice in one.
    class_splits : list of {"base", "val", "novel"}
        The split of each class.
    extraction : str
        How the features were taken: "eval", "bn-train-sorted", or free text.
    licence, provenance : str
        Terms of use, and where the data and the encoder came from.
    sha256 : str
        Digest of features, labels and classes (see `digest`), 64 hexadecimal digits.
    notes : dict of str to str
        Anything else.
    format : int
        Version of the bank format.
    """

    name: str
    classes: list[str]
    class_splits: list[Split]
    dataset: str = ""
    backbone: str = ""
    extraction: str = ""
    licence: str = ""
    provenance: str = ""
    sha256: str = ""
    notes: dict[str, str] = {}
    format: int = FORMAT

    def check(self) -> None:
        """Raise `BankError` when the fields contradict one another."""
        if not self.name:
            raise BankError("The bank has no name: give it one.")
        if not self.classes:
            raise BankError(f"Bank {self.name!r} names no classes: a bank needs at least one.")
        if len(self.classes) != len(self.class_splits):
            raise BankError(
                f"Bank {self.name!r} names {len(self.classes)} classes but the splits of "
                f"{len(self.class_splits)}: give one split per class."
            )
        seen: set[tuple[str, str]] = set()
        for name, split in zip(self.classes, self.class_splits, strict=True):
            if (name, split) in seen or not name:
                fault = "twice in" if name else "with an empty name in"
                raise BankError(
                    f"Bank {self.name!r} lists class {name!r} {fault} split {split!r}: "
                    "class names must be distinct inside a split."
                )
            seen.add((name, split))


def encode_meta(meta: BankMeta) -> str:
    """Return the metadata as one JSON text, the same text for the same content."""
    try:
        return msgspec.json.encode(meta).decode()
    except UnicodeEncodeError:
        raise BankError("The metadata of the bank hold text that is not valid Unicode.") from None


def decode_meta(text: str) -> BankMeta:
    """Read metadata from JSON text; refuse newer formats, unknown fields and repeated keys."""
    fields = parse_json(text, "metadata")
    if not isinstance(fields, dict) or type(fields.get("format")) is not int:
        raise BankError("The metadata do not state a format version: the file is not a bank.")
    if fields["format"] != FORMAT:
        raise BankError(
            f"The bank has format {fields['format']}, this firthshot reads format {FORMAT}: "
            "upgrade firthshot or write the bank again."
        )
    meta = build_meta(fields)
    if len(meta.sha256) != 64 or not set(meta.sha256) <= set("0123456789abcdef"):
        raise BankError("The metadata hold no valid sha256: write the bank again with save_bank.")
    return meta


def build_meta(fields: dict[str, Any]) -> BankMeta:
    """Return checked metadata from a dict of fields."""
    try:
        meta = msgspec.convert(fields, BankMeta)
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise BankError(f"The metadata of the bank are ill-formed: {reason(error)}.") from None
    meta.check()
    encode_meta(meta)  # refuses half characters, which JSON escapes can smuggle in
    return meta


def parse_json(text: str, what: str) -> Any:
    """Parse JSON strictly: repeated keys, excessive depth and bad syntax are one `BankError`."""

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise ValueError("a key is repeated")
        return out

    try:
        return json.loads(text, object_pairs_hook=refuse_repeats)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise BankError(f"The {what} of the bank are not valid JSON ({reason}).") from None


def digest(features: np.ndarray, labels: np.ndarray, meta: BankMeta) -> str:
    """Return the sha256 over features, labels and classes with their splits.

    Each array enters as a line naming its dtype and shape followed by its little-endian bytes in
    row order; the classes enter as a JSON list of [class, split]. Name, licence and the other
    words are not part of it, so a typo in them can be mended without a new identity.
    """
    state = hashlib.sha256()
    for name, array in (("features", features), ("labels", labels)):
        little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        state.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        raw = little.reshape(-1).view(np.uint8).data
        for start in range(0, len(raw), _HASH_BLOCK):
            state.update(raw[start : start + _HASH_BLOCK])
    pairs = [list(pair) for pair in zip(meta.classes, meta.class_splits, strict=True)]
    state.update(json.dumps(pairs).encode())
    return state.hexdigest()
