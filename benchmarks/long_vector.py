"""What a vector of 1e9 entries (4 GB) needs beside itself while it is encoded, and while its message is added.

Each codec in a process of its own. Extra memory is the high-water of what is resident during the call, less what was
before it (the vector and, for add, message and sum), and for encode less the message.

    python benchmarks/long_vector.py [--n 1e9] [--threads 2] [--codec topk:k=0.01 …]
"""

import argparse
from pathlib import Path

from gradwire.experiments.bench.memory import extra_memory
from gradwire.experiments.bench.plan import CODECS as EVERY_CODEC

SHORTER = {"spherical:alpha=0.25,block=8": "spherical:alpha=0.25,block=4"}
"""Where the search of so many blocks would pass the codec's budget."""

CODECS = ("sd:alpha=0.1", *(SHORTER.get(codec, codec) for codec in EVERY_CODEC))
NEEDED = 3.5
"""Times the vector, at least: itself, the sum, and a message of its size."""


def available() -> int:
    """Bytes of memory that are free for use, says the kernel."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/meminfo does not tell what is available")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=float, default=1e9, help="entries")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--codec", nargs="*", default=CODECS)
    options = parser.parse_args()
    n = int(options.n)
    print(
        f"n = {n:,} float32, standard normal; {options.threads} threads; extra memory over the input's {4 * n:,} bytes"
    )
    for codec in options.codec:
        if available() < NEEDED * 4 * n:
            raise SystemExit(f"{NEEDED * 4 * n / 1e9:.0f} GB are needed, {available() / 1e9:.0f} GB are available")
        item = {"codec": codec, "library": None, "source": "gaussian", "n": n, "threads": options.threads}
        encode, add = (extra / (4 * n) for extra in extra_memory(item))
        print(f"{codec:24} encode {encode:6.3f}   add {add:6.3f}", flush=True)


if __name__ == "__main__":
    main()
