"""Where the schemas of state are: Spark's metadata names them by absolute paths, wrong as soon as a checkpoint moves."""

from __future__ import annotations

from holdfast.checkpoint.files.choice import join, normalised
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.query_files import schema_name

__all__ = ["place_schemas"]


def place_schemas(checkpoint: Checkpoint, root: str) -> None:
    """Makes the operators' metadata, which has absolute paths, name the schemas below another directory."""
    for operator in checkpoint.operators():
        folder = join(normalised(root), "state", str(operator.number), "_stateSchema")
        for batch, content in checkpoint.operator_metadata(operator.number).items():
            for store in content["stateStoreInfo"]:
                paths = store.get("stateSchemaFilePaths", [])
                store["stateSchemaFilePaths"] = [join(folder, schema_name(operator.path, path)) for path in paths]
            checkpoint.write_operator_metadata(operator.number, batch, content)
