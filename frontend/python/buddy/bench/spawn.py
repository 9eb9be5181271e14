"""Run a command; print {"seconds" to its first byte of output, "told", "peak" bytes of memory}.

Run as a script by start.py, in a Python without site packages.  "told": the number after
`first token: ` if the command writes that line, else null.  The exit status is the command's.
"""

import json
import os
import resource
import subprocess
import sys
import time

start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
assert process.stdout is not None
output = os.read(process.stdout.fileno(), 1)
seconds = time.perf_counter() - start
output += process.stdout.read()
if process.wait() or not output:
    sys.exit(process.returncode or "it wrote nothing")
told = None
for line in output.decode("utf-8", "replace").splitlines():
    if line.startswith("first token: "):
        told = float(line.partition(": ")[2])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "told": told, "peak": peak}))
