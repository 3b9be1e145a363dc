"""The program of the play ``narrow``: one of two ranks that meet; rank 1 first looks where rank 0 lets it in.

It prints the addresses of rank 0's host that accept connections at the one port that rank 0 may use.
"""

from __future__ import annotations

import json
import os
import socket
import sys

import torch.distributed as dist

from reading_services.ranks.rendezvous import meet

SECONDS = 300.0


def main(rank: int, master: str, *addresses: str) -> None:
    serve = dist.TCPStore  # type: ignore[attr-defined]  # torch exports it without saying so
    store = serve(master, 29500, is_master=rank == 0, wait_for_workers=False)
    if rank == 1:
        told = json.loads(store.get("1/0"))
        open_ones = [each for each in addresses if lets_in(each, int(os.environ["LOADER2_PORTS"]))]
        sys.stdout.write(json.dumps([told["host"], open_ones]) + "\n")
    for link in meet(store, rank, 2, SECONDS).values():
        with link:
            link.sendall(b"hello")
            assert link.recv(5, socket.MSG_WAITALL) == b"hello"
            link.shutdown(socket.SHUT_WR)
            assert link.recv(1) == b"", "the other one has ended, and needs no store any more"


def lets_in(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
