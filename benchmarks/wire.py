"""A slow wire between two network namespaces, made of two TUN devices and this process in between.

Every packet waits its turn at the rate of the wire and arrives a delay later, as netem would have it, which
many kernels lack. ``python -m benchmarks.wire [DELAY_MS [MBITS]]`` measures one (needs root).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import queue
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

NAMES = ("jaxshared0", "jaxshared1")
ADDRESSES = ("10.199.0.1", "10.199.0.2")
# <linux/if_tun.h>: bare IP packets, no head of their own
TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001
PACKET = 9000  # bytes: few packets, so that this process does not take the cores of those it serves


def _run(*command):
    subprocess.run(command, check=True)


@contextlib.contextmanager
def two_hosts(delay, rate):
    """Two namespaces, ``delay`` seconds and ``rate`` bytes a second apart: a prefix for commands in each.

    Only namespaces made here are touched. Each has its own name for this machine: processes tell it to
    each other.
    """
    own, folders = socket.gethostname(), [pathlib.Path("/etc/netns", name) for name in NAMES]
    ends = []
    try:
        for number, (name, folder) in enumerate(zip(NAMES, folders)):
            _run("ip", "netns", "add", name)
            ends.append(_device(f"wire{number}"))
            _run("ip", "link", "set", f"wire{number}", "netns", name)
            inside = ("ip", "-n", name)
            _run(*inside, "addr", "add", f"{ADDRESSES[number]}/24", "dev", f"wire{number}")
            _run(*inside, "link", "set", f"wire{number}", "up", "mtu", str(PACKET))
            _run(*inside, "link", "set", "lo", "up")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESSES[number]} {own}\n")
        for source, target in (ends, ends[::-1]):
            _carry(source, target, delay, rate)
        yield lambda number: ["ip", "netns", "exec", NAMES[number]]
    finally:
        for name, folder in zip(NAMES, folders):
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(folder, ignore_errors=True)
        for end in ends:
            os.close(end)


def _device(name):
    """A TUN device as a file of packets."""
    found = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(found, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN_NO_PI))
    return found


def _carry(source, target, delay, rate):
    """Packets from one end to the other, by two threads: one that takes them, one that brings them."""
    way: queue.SimpleQueue = queue.SimpleQueue()

    def first():
        """Those who compute on all cores do not hold a packet back."""
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    def take():
        first()
        free = 0.0
        with contextlib.suppress(OSError):  # the end of the wire
            while True:
                packet = os.read(source, 2 * PACKET)
                free = max(free, time.monotonic()) + len(packet) / rate
                way.put((free + delay, packet))

    def bring():
        first()
        with contextlib.suppress(OSError):
            while True:
                due, packet = way.get()
                time.sleep(max(0.0, due - time.monotonic()))
                os.write(target, packet)

    for work in (take, bring):
        threading.Thread(target=work, daemon=True).start()


ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 5556)) as server:
    print("ready", flush=True)
    with server.accept()[0] as peer:
        for _ in range(20):
            peer.sendall(peer.recv(1))
        left = 4_000_000
        while left:
            left -= len(peer.recv(min(left, 65536)))
        peer.sendall(b"!")
"""
ASK = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5556)) as peer:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    there = []
    for _ in range(20):
        begun = time.perf_counter()
        peer.sendall(b"?")
        peer.recv(1)
        there.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    peer.sendall(bytes(4_000_000))
    peer.recv(1)
    print(sorted(there)[10], 4_000_000 / (time.perf_counter() - begun))
"""


def measured(prefix):
    """(seconds there and back, bytes a second) of the wire, by a TCP connection over it."""
    server = subprocess.Popen(
        [*prefix(0), sys.executable, "-c", ECHO, ADDRESSES[0]], stdout=subprocess.PIPE, text=True
    )
    server.stdout.readline()
    asked = [*prefix(1), sys.executable, "-c", ASK, ADDRESSES[0]]
    told = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout
    server.wait()
    there, rate = map(float, told.split())
    return there, rate


if __name__ == "__main__":
    lag, mbits = (float(each) for each in (*sys.argv[1:], *("1", "100")[len(sys.argv) - 1 :]))
    with two_hosts(lag / 1e3, mbits * 1e6 / 8) as hosts:
        back, speed = measured(hosts)
    print(f"there and back {1e3 * back:.2f} ms, {8 * speed / 1e6:.1f} Mbit/s")
