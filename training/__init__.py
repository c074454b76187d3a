"""Scripts that train players, to be read, run from a checkout and changed."""

from importlib.util import find_spec

for _name in ("pydantic", "rich", "safetensors", "tensorboard", "torch", "yaml"):
    if find_spec(_name) is None:
        raise ImportError(f"training needs {_name}: pip install -e '.[train]'")
