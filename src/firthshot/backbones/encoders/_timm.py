"""Networks of timm, without their classifier, with their own preparation of pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firthshot.backbones.encoders._base import Encoder
from firthshot.backbones.encoders._hub import HubName, fetch
from firthshot.backbones.encoders._options import Loading
from firthshot.backbones.encoders._packages import require
from firthshot.backbones.encoders._torch import torch_encoder
from firthshot.backbones.images import LibraryPreparation
from firthshot.errors import FirthshotError, refusing


def load_hub(name: HubName, loading: Loading) -> Encoder:
    """Load a model of the hub's ``timm/`` by its name in timm."""
    library, options = require("timm", str(name), "timm"), loading.options
    options.check(str(name), "image", "size", "mean", "std")
    snapshot = fetch(_full_name(library, name), loading)
    changes = {"img_size": options.size} if options.size else {}
    with refusing(f"timm cannot build {name}"):
        model = library.create_model(
            f"local-dir:{snapshot.folder}", pretrained=True, num_classes=0, **changes
        )
    return torch_encoder(
        model,
        _preparation(library, model, options.given),
        name=str(name),
        weights=options.mark(snapshot.mark),
        device=loading.device,
        description=f"{name.name} (timm)",
        **snapshot.words(options),
    )


def _full_name(library: Any, name: HubName) -> HubName:
    """Return the name with the tag that timm takes by default, as its repositories have it."""
    if "." in name.name:
        return name
    found = library.get_pretrained_cfg(name.name) if library.is_model(name.name) else None
    if found is None or not found.tag:
        raise FirthshotError(f"timm has no weights for {name.name!r}: see timm.list_pretrained().")
    full = f"{name.name}.{found.tag}"
    return replace(name, name=full, repo=f"timm/{full}")


def _preparation(library: Any, model: Any, given: dict[str, Any]) -> LibraryPreparation:
    told: dict[str, Any] = {key: given[key] for key in ("mean", "std") if key in given}
    if "size" in given:
        told["input_size"] = (3, given["size"], given["size"])
    config = library.data.resolve_data_config(told, model=model)
    transform = library.data.create_transform(**config, is_training=False)
    words = ", ".join(f"{key} {value}" for key, value in sorted(config.items()))
    side = int(config["input_size"][-1])
    return LibraryPreparation(side, f"timm's transform ({words})", transform)
