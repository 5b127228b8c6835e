#!/usr/bin/env python3
"""wire.py - a slow wire: carries frames between two interfaces, each after DELAY seconds, and loses a share of them.
usage: wire.py A B DELAY LOSS. For kernels without netem. It prints "ready", and runs until it is killed."""
import collections
import random
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15  # linux/if_packet.h: checksums and segments that are still to be made
OUTGOING = 4


def tap(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    s.bind((interface, 0))
    s.setblocking(False)
    return s


def take(sock, queue, delay, loss):
    while True:
        try:
            frame, address = sock.recvfrom(1 << 17)
        except BlockingIOError:
            return
        if address[2] != OUTGOING and random.random() >= loss:
            queue.append((time.monotonic() + delay, frame))


def give(sock, queue):
    while queue and queue[0][0] <= time.monotonic():
        try:
            sock.send(queue.popleft()[1])
        except OSError:
            pass  # lost, as wires do


def main():
    a, b, (delay, loss) = tap(sys.argv[1]), tap(sys.argv[2]), map(float, sys.argv[3:5])
    ways = [(a, b, collections.deque()), (b, a, collections.deque())]
    print("ready", flush=True)
    while True:
        due = [q[0][0] for _, _, q in ways if q]
        select.select([a, b], [], [], max(0, min(due) - time.monotonic()) if due else None)
        for source, target, queue in ways:
            take(source, queue, delay, loss)
            give(target, queue)


main()
