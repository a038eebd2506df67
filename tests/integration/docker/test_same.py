"""What both runtimes do alike: the suites of the embedded runtime once more, on an engine. The fixtures `server`
and `make` of this directory decide which runtime it is."""

import importlib.util
import os

SUITES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server")
# What is left out asks for programs that the small image has not, looks at the embedded runtime's own
# directories, or has nothing to do with a runtime.
SAME = {
    "test_lifecycle": None,
    "test_restart": None,
}
NOT = {"test_endpoints", "test_out_of_memory_is_told"}


def load(name):
    spec = importlib.util.spec_from_file_location("same_" + name, os.path.join(SUITES, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for suite, names in SAME.items():
    loaded = load(suite)
    for name in names or [n for n in dir(loaded) if n.startswith("test_") and n not in NOT]:
        globals()[f"{name}_{suite[5:]}" if name in globals() else name] = getattr(loaded, name)
