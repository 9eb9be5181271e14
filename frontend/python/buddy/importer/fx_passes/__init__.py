"""FX passes that run on Dynamo's graph, before AOTAutograd."""

from .keep_whole import prepare_fx

__all__ = ["prepare_fx"]
