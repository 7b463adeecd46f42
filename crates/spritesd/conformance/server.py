"""The servers under test: started, asked and ended. Nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import tempfile
import threading
import urllib.request

# Sprites that suites list; the number is in the name of that operation, too.
MANY, HOW_MANY = "many-", 251


@contextlib.contextmanager
def folder_for_servers():
    """A temporary folder that is removed after all servers in it have ended, also when this process is killed."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="spritesd-conformance."))
    # It reads the process ids of servers until this process ends, waits for those, and removes the folder.
    script = """
    pids= tries=0
    while read -r pid; do pids="$pids $pid"; done
    for pid in $pids; do
      while kill -0 "$pid" 2>/dev/null && [ $((tries += 1)) -lt 600 ]; do sleep 0.1; done
    done
    rm -rf -- "$1"
    """
    with subprocess.Popen(
        ["sh", "-c", script, "remover", folder], stdin=subprocess.PIPE, text=True, start_new_session=True
    ) as remover:
        yield folder, lambda pid: print(pid, file=remover.stdin, flush=True)


@contextlib.contextmanager
def one(program: pathlib.Path, folder: pathlib.Path, tell, name: str, *options: str):
    """A spritesd; gives the address of its API. Its log is shown when something goes wrong."""
    data, log = folder / name, folder / f"{name}.log"
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            # A server does not outlive who started it, even if that one is killed.
            [
                "setpriv",
                "--pdeathsig",
                "TERM",
                str(program),
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--data",
                str(data),
                "--token-file",
                str(folder / "token"),
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        tell(process.pid)
        words = process.stdout.readline().split()
        if words[:1] != ["listening"]:
            raise SystemExit(f"conformance: spritesd did not start:\n{log.read_text()}")
        yield words[1]
        if process.poll() is not None:
            raise SystemExit(f"conformance: spritesd ended with {process.returncode}:\n{log.read_text()[-4000:]}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        process.stdout.close()


@contextlib.contextmanager
def running(program: pathlib.Path):
    """All servers that the suites need; gives the environment that tells suites where they are."""
    with contextlib.ExitStack() as stack:
        folder, tell = stack.enter_context(folder_for_servers())
        token = secrets.token_urlsafe(24)
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(token)
        small = ("--network", "none", "--disk-limit", "none")
        main = stack.enter_context(one(program, folder, tell, "main", "--boot", "call", "--fs-on-cold", "wake"))
        # Tools of agents have what users have who say nothing.
        agents = stack.enter_context(one(program, folder, tell, "agents"))
        # One creation an hour, and it is used.
        rate = stack.enter_context(one(program, folder, tell, "rate", *small, "--boot", "call", "--create-limit", "1/1h"))
        create(rate, token, "only")
        # One Sprite may run, and it runs: for as long as the exec call is open.
        busy = stack.enter_context(one(program, folder, tell, "busy", *small, "--boot", "call", "--running-limit", "1"))
        create(busy, token, "busy")
        create(busy, token, "cold")
        stack.enter_context(call(busy, token, "POST", "/v1/sprites/busy/exec?cmd=sleep&cmd=600"))
        yield {
            **os.environ,
            "SPRITESD_TOKEN": token,
            "SPRITESD_URL": main,
            "SPRITESD_AGENTS_URL": agents,
            "SPRITESD_RATE_URL": rate,
            "SPRITESD_BUSY_URL": busy,
            "SPRITESD_MANY": MANY,
        }


def call(url: str, token: str, method: str, path: str, body: dict | None = None):
    """A call of the API; the answer is closed by who asked."""
    request = urllib.request.Request(
        url + path, method=method, headers={"Authorization": f"Bearer {token}"}, data=body and json.dumps(body).encode()
    )
    # No proxy of the environment: the server is on the loopback.
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)


def create(url: str, token: str, name: str) -> None:
    with call(url, token, "POST", "/v1/sprites", {"name": name}):
        pass


def make_many(environment: dict[str, str], stopped: threading.Event) -> None:
    """The Sprites that suites list."""
    for number in range(HOW_MANY):
        if stopped.is_set():
            return
        create(environment["SPRITESD_URL"], environment["SPRITESD_TOKEN"], f"{MANY}{number:03}")
