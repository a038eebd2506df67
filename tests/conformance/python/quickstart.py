"""Runs a quick start of the code interpreter's README as it is published, with nothing changed but the address and the key:
python quickstart.py 0|1 (asynchronous, synchronous)."""

import importlib.metadata
import os
import re
import sys

text = importlib.metadata.metadata("opensandbox-code-interpreter").get_payload()
blocks = [b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "your-api-key" in b and "codes.run" in b]
code = blocks[int(sys.argv[1])]
for old, new in (("api.opensandbox.io", os.environ["OSB_DOMAIN"]), ("your-api-key", os.environ["OSB_KEY"])):
    assert old in code, code
    code = code.replace(old, new)
exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
