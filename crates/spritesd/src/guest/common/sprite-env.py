#!/usr/bin/env -S python3 -I
"""sprite-env: what this Sprite can do for itself.

It calls the API at /.sprite/api.sock. `sprite-env GROUP --help` says more of a group.
"""

import argparse
import http.client
import json
import socket
import sys
import urllib.parse

SOCKET = "/.sprite/api.sock"


class Connection(http.client.HTTPConnection):
    """A connection to the API of this Sprite."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def call(method, path, body=None):
    """Call the API and print what it says, in the pace of a stream; the exit code tells whether it was done."""
    connection = Connection("sprite")
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
    response = connection.getresponse()
    if response.status >= 400:
        text = response.read().decode(errors="replace").strip()
        print(f"sprite-env: {response.status}: {text}", file=sys.stderr)
        return 1
    code = 0
    if "ndjson" in (response.getheader("Content-Type") or ""):
        for line in response:
            code |= event(json.loads(line))
        return code
    text = response.read().decode()
    if text:
        try:
            text = json.dumps(json.loads(text), indent=2)
        except ValueError:
            pass
        print(text)
    return code


def event(told):
    """Print one event of a stream; 1 if it tells of a failure."""
    if told["type"] == "error":
        print(told.get("error") or told.get("data"), file=sys.stderr)
        return 1
    if told["type"] in ("stdout", "stderr"):
        print(told["data"].rstrip("\n"), file=getattr(sys, told["type"]), flush=True)
    elif isinstance(told.get("data"), str):
        print(told["data"], flush=True)
    else:
        rest = {key: value for key, value in told.items() if key not in ("type", "timestamp", "time")}
        print(told["type"], json.dumps(rest) if rest else "", flush=True)
    return 0


def services(group):
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all services")
    for verb in ("create", "update"):
        make = verbs.add_parser(verb, help="make or replace a service, start it and follow it for a while")
        make.add_argument("name")
        make.add_argument("--cmd", required=True, help="the program")
        make.add_argument("--args", help="its arguments, with commas between them")
        make.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="may be given again, or with commas")
        make.add_argument("--dir", help="where it runs")
        make.add_argument("--needs", help="services to start first, with commas between them")
        make.add_argument("--http-port", type=int, help="the port that the URL of the Sprite leads to")
        make.add_argument("--duration", default="5s", help="how long to follow it")
        make.add_argument("--no-stream", action="store_true", help="do not follow it")
    for verb, what in [("get", "one service"), ("delete", "end and forget it"), ("start", "start it"), ("stop", "end it"), ("restart", "end and start it")]:
        verbs.add_parser(verb, help=what).add_argument("name")
    signal = verbs.add_parser("signal", help="send it a signal")
    signal.add_argument("name")
    signal.add_argument("signal")
    logs = verbs.add_parser("logs", help="its last lines")
    logs.add_argument("name")
    logs.add_argument("--lines", type=int, default=100)
    logs.add_argument("--follow", metavar="DURATION", default="0")


def pairs(options):
    """NAME=VALUE; a comma parts two of them where the next begins with a name."""
    found = {}
    for option in options:
        last = None
        for part in option.split(","):
            name, equals, value = part.partition("=")
            if equals and name.isidentifier():
                found[name], last = value, name
            elif last:
                found[last] += "," + part
            else:
                sys.exit(f"sprite-env: --env {option}: write NAME=VALUE")
    return found


def run_services(given):
    name = urllib.parse.quote(getattr(given, "name", ""), safe="")
    path = f"/v1/services/{name}"
    if given.verb == "list":
        return call("GET", "/v1/services")
    if given.verb in ("create", "update"):
        body = {"cmd": given.cmd, "args": given.args.split(",") if given.args else []}
        body |= {"env": pairs(given.env)} if given.env else {}
        body |= {"dir": given.dir} if given.dir else {}
        body |= {"needs": given.needs.split(",")} if given.needs else {}
        body |= {"http_port": given.http_port} if given.http_port else {}
        return call("PUT", f"{path}?duration={'0s' if given.no_stream else given.duration}", body)
    if given.verb == "signal":
        return call("POST", "/v1/services/signal", {"name": given.name, "signal": given.signal})
    if given.verb == "logs":
        return call("GET", f"{path}/logs?lines={given.lines}&duration={given.follow}")
    if given.verb in ("start", "stop", "restart"):
        return call("POST", f"{path}/{given.verb}")
    return call({"get": "GET", "delete": "DELETE"}[given.verb], path)


def checkpoints(group):
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all checkpoints")
    verbs.add_parser("create", help="copy the files as they are").add_argument("--comment", default="")
    for verb, what in [("get", "one checkpoint"), ("restore", "put its files back; ends all processes, this one too")]:
        verbs.add_parser(verb, help=what).add_argument("id")


def run_checkpoints(given):
    path = f"/v1/checkpoints/{urllib.parse.quote(getattr(given, 'id', ''), safe='')}"
    if given.verb == "list":
        return call("GET", "/v1/checkpoints")
    if given.verb == "create":
        return call("POST", "/v1/checkpoint", {"comment": given.comment})
    return call("POST", f"{path}/restore") if given.verb == "restore" else call("GET", path)


def tasks(group):
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all tasks")
    for verb, what in [("create", "keep the Sprite awake"), ("update", "begin its time anew"), ("get", "one task"), ("delete", "end it")]:
        parser = verbs.add_parser(verb, help=what)
        parser.add_argument("name")
        if verb in ("create", "update"):
            parser.add_argument("--expire", default="10m", help="at most 1h")


def run_tasks(given):
    path = f"/v1/tasks/{urllib.parse.quote(getattr(given, 'name', ''), safe='')}"
    if given.verb == "list":
        return call("GET", "/v1/tasks")
    if given.verb == "create":
        return call("POST", "/v1/tasks", {"name": given.name, "expire": given.expire})
    if given.verb == "update":
        return call("PUT", path, {"expire": given.expire})
    return call({"get": "GET", "delete": "DELETE"}[given.verb], path)


def joined(words):
    """Options with the words after them, which may begin with a dash as the arguments of a program do."""
    words = iter(words)
    for word in words:
        value = next(words, None) if word in ("--args", "--cmd", "--comment", "--data", "--dir", "--env", "--needs", "-d") else None
        yield word if value is None else f"{word}={value}" if word.startswith("--") else word + value


def main():
    parser = argparse.ArgumentParser(prog="sprite-env", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = parser.add_subparsers(dest="group", required=True, metavar="GROUP")
    groups.add_parser("info", help="name, URL and version of this Sprite")
    for name, make, what in [
        ("services", services, "programs that run whenever the Sprite does"),
        ("checkpoints", checkpoints, "copies of its files"),
        ("tasks", tasks, "what keeps it awake"),
    ]:
        make(groups.add_parser(name, aliases=[name.rstrip("s")], help=what))
    curl = groups.add_parser("curl", help="any call of the API")
    curl.add_argument("-X", "--request", default=None)
    curl.add_argument("-d", "--data", default=None)
    curl.add_argument("path")
    given = parser.parse_args(list(joined(sys.argv[1:])))
    if given.group == "info":
        return call("GET", "/v1/info")
    if given.group == "curl":
        body = None if given.data is None else json.loads(given.data)
        return call(given.request or ("GET" if body is None else "POST"), given.path, body)
    run = {"s": run_services, "c": run_checkpoints, "t": run_tasks}[given.group[0]]
    return run(given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, http.client.HTTPException, ValueError) as error:
        sys.exit(f"sprite-env: {error}")
