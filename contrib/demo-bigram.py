#!/usr/bin/env python3
"""demo-bigram.py CONTEXT FILE... - what a table of byte pairs scores on the same split that ./train uses.

The files' bytes, joined, less the last 5%, are counted; the last 5% are predicted, each byte from the one before it:
    P(b | a) = 0.90 count(ab) / count(a) + 0.09 count(b) / n + 0.01 / 256
(0.99 count(b) / n + 0.01 / 256 where a was never seen). Scored are the bytes that ./train's validation windows of
CONTEXT bytes predict. Prints the mean of -ln P, in nats.
"""
import math
import sys
from collections import Counter

context = int(sys.argv[1])
text = b"".join(open(name, "rb").read() for name in sys.argv[2:])
held = len(text) // 20
train, val = text[: len(text) - held], text[len(text) - held :]
scored = (len(val) - 1) // context * context

single = Counter(train)
before = Counter(train[:-1])
pair = Counter(zip(train, train[1:]))


def probability(a, b):
    unigram = single[b] / len(train)
    bigram = pair[a, b] / before[a] if before[a] else unigram
    return 0.90 * bigram + 0.09 * unigram + 0.01 / 256


loss = -sum(math.log(probability(a, b)) for a, b in zip(val[:scored], val[1 : scored + 1]))
print(f"{loss / scored:.4f}")
