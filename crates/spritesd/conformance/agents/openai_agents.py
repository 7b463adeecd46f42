"""The cases of sprites-openai-agents, a sandbox of the OpenAI Agents SDK: `openai_agents.py`, then parts of names.

The tool is told by environment variables where Sprites are, as its users do. Where an agent has to work, the SDK's own
scripted model takes the place of a real one: the loop of the agent and its tools are the real ones.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import pathlib
import re
import sys
import tarfile
import time
import uuid

# What happens is for nobody else to know; read when the SDK is imported.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["SPRITES_CLIENT_SIGNALS"] = "0"
os.environ["SPRITES_API_URL"] = os.environ["SPRITESD_AGENTS_URL"]
os.environ["SPRITES_API_TOKEN"] = os.environ["SPRITESD_TOKEN"]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import httpx
import sprites
import sprites_openai_agents as tool
from agents import RunConfig, Runner
from agents.sandbox import (
    ExecTimeoutError,
    ExposedPortUnavailableError,
    Manifest,
    SandboxAgent,
    SandboxRunConfig,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.errors import InvalidManifestPathError, WorkspaceStartError
from agents.sandbox.manifest import Environment
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

from harness import absent, equal, eventually, operation, run_all, true

SERVE = ["-m", "http.server", "8080", "--directory", "/workspace"]
Path = pathlib.PurePosixPath


class Suite:
    """What cases get: the tool's client, a sandbox that is up, and the API as any other client sees it."""

    def __init__(self):
        self.client = tool.SpritesSandboxClient()
        self.http = httpx.AsyncClient(
            base_url=os.environ["SPRITESD_AGENTS_URL"],
            headers={"Authorization": f"Bearer {os.environ['SPRITESD_TOKEN']}"},
            trust_env=False,
        )
        self._box = None
        self._lock = asyncio.Lock()

    async def create(self, manifest: Manifest | None = None, **options):
        return await self.client.create(manifest=manifest, options=tool.SpritesSandboxClientOptions(**options))

    async def box(self):
        """A sandbox that cases share."""
        async with self._lock:
            if self._box is None:
                box = await self.create()
                await box.start()
                self._box = box
            return self._box

    async def status(self, sandbox) -> str | None:
        """The state of a Sprite; asking wakes nothing. None: there is none."""
        answer = await self.http.get(f"/v1/sprites/{name(sandbox)}")
        return None if answer.status_code == 404 else answer.raise_for_status().json()["status"]

    async def page(self, host: str, port: int, path: str, **headers) -> tuple[int, str]:
        """A page behind a URL. Names below `localhost` are the loopback's; not every resolver knows that."""
        async with httpx.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(f"http://127.0.0.1:{port}{path}", headers={"Host": f"{host}:{port}", **headers})
            return answer.status_code, answer.text

    async def close(self) -> None:
        if self._box is not None:
            await self._box.aclose()
        await self.http.aclose()


def name(sandbox) -> str:
    return sandbox.state.sprite_name


def output(result) -> tuple[int, bytes, bytes]:
    return result.exit_code, result.stdout, result.stderr


async def ended(sandbox, update, before: bytes = b"") -> tuple[bytes, int]:
    """All output and the exit code of a command that was started, which is asked again and again as agents do. `before`
    is what updates before this one gave."""
    collected, deadline = bytearray(before + update.output), time.monotonic() + 30
    while update.process_id is not None:
        true(time.monotonic() < deadline, f"it does not end: {bytes(collected)!r}")
        update = await sandbox.pty_write_stdin(session_id=update.process_id, chars="", yield_time_s=0.25)
        collected += update.output
    return bytes(collected), update.exit_code


async def until(sandbox, update, wanted: bytes, chars: str = ""):
    """Write, then ask for output until `wanted` is in it; gives all of it and the last update."""
    collected, deadline = bytearray(update.output), time.monotonic() + 30
    while wanted not in collected:
        true(time.monotonic() < deadline and update.process_id is not None, f"no {wanted!r} in {bytes(collected)!r}")
        update = await sandbox.pty_write_stdin(session_id=update.process_id, chars=chars, yield_time_s=0.25)
        collected += update.output
        chars = ""
    return bytes(collected), update


class Plan:
    """A model that follows a plan: each step names a tool and its arguments, or a function from what the last call told
    to those."""

    def __init__(self, *steps):
        self.outputs: list[str] = []
        self._calls = itertools.count()
        self._poll = False
        self._steps = list(steps)
        self.model = ScriptedModel([ModelStep.respond(self._next)] * 200)

    @property
    def seen(self):
        return self.model.first_call

    def _next(self, call):
        last = ""
        for item in call.input if isinstance(call.input, list) else []:
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                last = str(item["output"])
        if next(self._calls):
            self.outputs.append(last)
            # A command that is still running is asked again, as agents do.
            running = re.search(r"Process running with session ID (\d+)", last)
            if running and self._poll:
                return self._call("write_stdin", {"session_id": int(running[1]), "chars": "", "yield_time_ms": 250})
        if not self._steps:
            return [assistant_message("done")]
        tool_name, arguments = self._steps.pop(0)
        if callable(arguments):
            arguments = arguments(last)
        self._poll = tool_name == "exec_command" and not arguments.pop("keep", False)
        return self._call(tool_name, arguments)

    def _call(self, tool_name: str, arguments):
        call_id = f"call-{uuid.uuid4().hex}"
        if isinstance(arguments, str):
            kind = "custom_tool_call"
            return [ResponseCustomToolCall(call_id=call_id, id=call_id, name=tool_name, input=arguments, type=kind)]
        return [function_call(tool_name, arguments, call_id=call_id)]


def run(command: str, **options):
    return "exec_command", {"cmd": command, "yield_time_ms": 500, **options}


async def work(sandbox, plan: Plan, *capabilities) -> list[str]:
    """Let an agent follow the plan; gives what each of its calls told it."""
    agent = SandboxAgent(name="worker", instructions="Work.", model=plan.model, capabilities=list(capabilities))
    config = RunConfig(sandbox=SandboxRunConfig(session=sandbox))
    result = await Runner.run(agent, "Go.", max_turns=200, run_config=config)
    equal(result.final_output, "done")
    return plan.outputs


@operation("create and wait until it is up")
async def create(t):
    sandbox = await t.create()
    try:
        # No call but the tool's own question for the state: a new Sprite boots by itself.
        async def up():
            return await sandbox.running()

        await eventually(up, "up by itself")
        true(await t.status(sandbox) in ("warm", "running"), await t.status(sandbox))
    finally:
        await sandbox.aclose()
    start = time.monotonic()
    async with await t.create(wait_for_running_timeout_s=20) as sandbox:
        equal(output(await sandbox.exec("pwd")), (0, b"/workspace\n", b""))
    true(time.monotonic() - start < 20, "the tool waited for its whole time")


@operation("list")
async def listing(_t):
    return absent((tool.SpritesSandboxClient, "list"))


@operation("attach to one that is there")
async def attach(t):
    async with await t.create() as first:
        await first.write(Path("kept"), io.BytesIO(b"kept"))
        state = t.client.serialize_session_state(first.state)
        true(os.environ["SPRITESD_TOKEN"] not in str(state), "the token is in the state")
        again = await t.client.resume(t.client.deserialize_session_state(state))
        equal(name(again), name(first))
        equal((await again.read(Path("kept"))).read(), b"kept")
        by_name = await t.create(sprite_name=name(first))
        async with by_name:
            equal((await by_name.read(Path("kept"))).read(), b"kept")
        true(await t.status(first), "a Sprite that is not the session's own was deleted with it")
    try:
        await t.client.resume(by_name.state)
    except WorkspaceStartError as error:
        equal(error.context["reason"], "sprite_not_found")
    else:
        raise AssertionError("attached to a Sprite that is gone")


@operation("destroy")
async def destroy(t):
    sandbox = await t.create()
    await sandbox.start()
    true(await t.status(sandbox), "not there")
    await t.client.delete(sandbox)
    equal(await t.status(sandbox), None)
    equal(await sandbox.running(), False)


@operation("refused with a wrong token")
async def refused(t):
    stranger = tool.SpritesSandboxClient(token="wrong")
    try:
        await stranger.create(options=tool.SpritesSandboxClientOptions())
    except WorkspaceStartError as error:
        equal(error.context["reason"], "create_failed")
        equal(type(error.cause), sprites.AuthenticationError)
    else:
        raise AssertionError("a wrong token was accepted")


@operation("run: output and exit codes")
async def codes(t):
    sandbox = await t.box()
    equal(output(await sandbox.exec("echo out; echo err >&2")), (0, b"out\n", b"err\n"))
    everything = (
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 9); sys.stderr.buffer.write(bytes(range(255, -1, -1)))"
    )
    result = await sandbox.exec("python3", "-c", everything, shell=False)
    equal(output(result), (0, bytes(range(256)) * 9, bytes(range(255, -1, -1))))
    for code in (1, 3, 126, 255):
        equal((await sandbox.exec(f"exit {code}")).exit_code, code)
    equal((await sandbox.exec("no-such-program", shell=False)).exit_code, 127)
    equal((await sandbox.exec("kill -9 $$")).exit_code, 137)
    for number in range(20):
        equal(output(await sandbox.exec("echo", str(number), shell=False)), (0, f"{number}\n".encode(), b""))
    many = await asyncio.gather(*(sandbox.exec(f"sleep 0.1; echo {n}; exit {n}") for n in range(5)))
    equal([output(result) for result in many], [(n, f"{n}\n".encode(), b"") for n in range(5)])


@operation("run: environment and working directory")
async def environment(t):
    quoted = 'it\'s "quoted" = $HOME'
    manifest = Manifest(root="/workspace/deep", environment=Environment(value={"FROM_MANIFEST": quoted}))
    async with await t.create(manifest, env={"FROM_OPTIONS": "ü", "FROM_MANIFEST": "loses"}) as sandbox:
        result = await sandbox.exec('printf "%s|" "$FROM_MANIFEST" "$FROM_OPTIONS" "$HOME"; pwd')
        equal(output(result), (0, f"{quoted}|ü|/home/sprite|/workspace/deep\n".encode(), b""))


@operation("run: 1 MB of output")
async def much(t):
    sandbox = await t.box()
    result = await sandbox.exec("head -c 1000000 /dev/zero | tr '\\0' x; head -c 100000 /dev/zero | tr '\\0' y >&2")
    equal(output(result), (0, b"x" * 1_000_000, b"y" * 100_000))


@operation("run: time limit")
async def time_limit(t):
    async with await t.create() as sandbox:
        start = time.monotonic()
        try:
            await sandbox.exec("sleep", "611", shell=False, timeout=0.5)
        except ExecTimeoutError:
            true(time.monotonic() - start < 10, "late")
        else:
            raise AssertionError("it ended by itself")
        # The tool uses the connection again before the killed command has ended, and takes what comes for what the next
        # one says. Ten in a row: an answer that comes one too late stays that for good.
        for number in range(1, 11):
            equal(output(await sandbox.exec("echo", str(number), shell=False)), (0, f"{number}\n".encode(), b""))
        equal(output(await sandbox.exec("pgrep", "-f", "sleep 61[1]", shell=False)), (1, b"", b""))


@operation("run: output before the end")
async def partly(t):
    sandbox = await t.box()
    command = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5"
    update = await sandbox.pty_exec_start(command, yield_time_s=0.25)
    got, update = await until(sandbox, update, b"one\n")
    equal((got, update.exit_code), (b"one\n", None))
    await sandbox.write(Path("go"), io.BytesIO(b""))
    update = await sandbox.pty_write_stdin(session_id=update.process_id, chars="", yield_time_s=0.25)
    equal(await ended(sandbox, update, got), (b"one\ntwo\n", 5))


@operation("run: in the background")
async def background(t):
    sandbox = await t.box()
    update = await sandbox.pty_exec_start("exec sleep 612", yield_time_s=0.25)
    equal((update.output, update.exit_code), (b"", None))
    result = await sandbox.exec("sleep 613 >/dev/null 2>&1 & echo started")
    equal(output(result), (0, b"started\n", b""))
    equal((await sandbox.exec("pgrep", "-fx", "sleep 61[23]", shell=False)).stdout.count(b"\n"), 2)
    await sandbox.pty_terminate_all()

    async def one():
        return (await sandbox.exec("pgrep", "-fxa", "sleep 61[23]", shell=False)).stdout.endswith(b" sleep 613\n")

    await eventually(one, "the end of the first alone")
    equal((await sandbox.exec("pkill", "-fx", "sleep 613", shell=False)).exit_code, 0)


@operation("run: input and a terminal")
async def terminal(t):
    sandbox = await t.box()
    command = 'stty size; read line; echo "got $line"; read line; exit 4'
    update = await sandbox.pty_exec_start(command, tty=True, yield_time_s=0.25)
    got, update = await until(sandbox, update, b"24 80\r\n")
    got, update = await until(sandbox, update, b"got hello\r\n", chars="hello\n")
    update = await sandbox.pty_write_stdin(session_id=update.process_id, chars="\n", yield_time_s=0.25)
    equal((await ended(sandbox, update))[1], 4)
    # Ctrl-C.
    update = await sandbox.pty_exec_start("exec sleep 614", tty=True, yield_time_s=0.25)
    update = await sandbox.pty_write_stdin(session_id=update.process_id, chars="\x03", yield_time_s=0.25)
    equal((await ended(sandbox, update))[1], 130)
    # Without a terminal.
    update = await sandbox.pty_exec_start("read line; echo $line; exit 6", yield_time_s=0.25)
    update = await sandbox.pty_write_stdin(session_id=update.process_id, chars="plain\n", yield_time_s=0.25)
    equal(await ended(sandbox, update), (b"plain\n", 6))


@operation("files: write, read, list")
async def files(t):
    sandbox = await t.box()
    content = bytes(range(256)) * 4096
    await sandbox.write(Path("some/where/data.bin"), io.BytesIO(content))
    equal((await sandbox.read(Path("some/where/data.bin"))).read() == content, True)
    await sandbox.write(Path("some/where/data.bin"), io.BytesIO(b"shorter"))
    equal((await sandbox.read(Path("some/where/data.bin"))).read(), b"shorter")
    await sandbox.mkdir(Path("some/other"))
    listed = {entry.path: entry.kind.value for entry in await sandbox.ls(Path("some"))}
    equal(listed, {"/workspace/some/where": "directory", "/workspace/some/other": "directory"})
    (entry,) = await sandbox.ls(Path("some/where"))
    equal((entry.path, entry.size, entry.kind.value), ("/workspace/some/where/data.bin", 7, "file"))
    equal(output(await sandbox.exec("cat some/where/data.bin")), (0, b"shorter", b""))


@operation("files: remove")
async def remove(t):
    sandbox = await t.box()
    await sandbox.write(Path("dir/file"), io.BytesIO(b"x"))
    await sandbox.rm(Path("dir/file"))
    equal(await sandbox.ls(Path("dir")), [])
    await sandbox.rm(Path("dir"), recursive=True)
    equal((await sandbox.exec("test", "-e", "dir", shell=False)).exit_code, 1)


@operation("files: what is missing")
async def missing(t):
    sandbox = await t.box()
    for path, kind in ((Path("nobody"), WorkspaceReadNotFoundError), (Path("/etc/passwd"), InvalidManifestPathError)):
        try:
            await sandbox.read(path)
        except kind:
            continue
        raise AssertionError(f"{path} was read")
    equal(output(await sandbox.exec("ln -s /etc/passwd link")), (0, b"", b""))
    try:
        await sandbox.read(Path("link"))
    except InvalidManifestPathError:
        return
    raise AssertionError("a link out of the workspace was followed")


@operation("files: the workspace as an archive")
async def archive(t):
    async with await t.create() as first:
        await first.write(Path("a/b"), io.BytesIO(b"content"))
        await first.exec("chmod 750 a/b; ln -s b a/c")
        whole = (await first.persist_workspace()).read()
    with tarfile.open(fileobj=io.BytesIO(whole)) as packed:
        equal(sorted(packed.getnames()), [".", "./a", "./a/b", "./a/c"])
    async with await t.create() as second:
        await second.hydrate_workspace(io.BytesIO(whole))
        equal(output(await second.exec("cat a/c; stat -c %a a/b")), (0, b"content750\n", b""))
        equal(output(await second.exec("ls /tmp | grep tar")), (1, b"", b""))


@operation("checkpoint and restore")
async def checkpoint(t):
    def good(listed: str) -> str:
        found = re.search(r"- (v\d+) .*: a good state", listed)
        return found[1] if found else "v0"

    async with await t.create() as sandbox:
        plan = Plan(
            run("echo before > state"),
            ("create_sprite_checkpoint", {"comment": "a good state"}),
            run("echo after > state; echo new > other"),
            ("list_sprite_checkpoints", {}),
            ("restore_sprite_checkpoint", lambda told: {"checkpoint_id": good(told)}),
            run("cat state; ls"),
            ("restore_sprite_checkpoint", {"checkpoint_id": "v99"}),
        )
        told = await work(sandbox, plan, Shell(), tool.SpritesCheckpoints(allow_restore=True))
        made, restored = r"checkpoint created: id='v\d+', comment='a good state', .*", r"restored checkpoint 'v\d+'"
        for pattern in (made, restored, ".*error.*v99.*"):
            true(any(re.fullmatch(pattern, text) for text in told), f"nothing like {pattern!r} in {told}")
        equal(output(await sandbox.exec("cat state; ls")), (0, b"before\nstate\n", b""))


@operation("a port by the URL")
async def port(t):
    async with await t.create(exposed_ports=(8080,)) as sandbox:
        await sandbox.write(Path("page.txt"), io.BytesIO(b"served"))
        for number, reason in ((8080, "not_configured"), (9090, "not_configured")):
            try:
                await sandbox.resolve_exposed_port(number)
            except ExposedPortUnavailableError as error:
                equal(error.context["reason"], reason)
            else:
                raise AssertionError(f"port {number} has no service")
        # Services are the application's, by the SDK.
        with sprites.SpritesClient(os.environ["SPRITES_API_TOKEN"], base_url=os.environ["SPRITES_API_URL"]) as sdk:
            sprite = sdk.sprite(name(sandbox))
            stream = sprite.create_service("web", "python3", SERVE, http_port=8080, duration=0.5)
            equal((await asyncio.to_thread(lambda: [event.type for event in stream]))[0], "started")
        endpoint = await sandbox.resolve_exposed_port(8080)
        equal((endpoint.host, endpoint.tls), (f"{name(sandbox)}.localhost", False))

        async def served():
            bearer = {"Authorization": f"Bearer {os.environ['SPRITESD_TOKEN']}"}
            return await t.page(endpoint.host, endpoint.port, "/page.txt", **bearer) == (200, "served")

        await eventually(served, "the page")


@operation("who may ask the URL")
async def visibility(t):
    async with await t.create() as sandbox:
        command = "python3 -m http.server 8080 >/dev/null 2>&1 & echo started; echo served > page.txt"
        equal((await sandbox.exec(command)).stdout, b"started\n")
        url = httpx.URL((await t.http.get(f"/v1/sprites/{name(sandbox)}")).json()["url"])

        async def page(**headers):
            return await t.page(url.host, url.port, "/page.txt", **headers)

        async def served():
            return await page(Authorization=f"Bearer {os.environ['SPRITESD_TOKEN']}") == (200, "served\n")

        async def settings():
            return (await t.http.get(f"/v1/sprites/{name(sandbox)}")).json()["url_settings"]["auth"]

        await eventually(served, "the page, for who has the token")
        true((await page())[0] in (401, 403), "for everybody")
        ask = ("set_sprite_url_visibility", {"visibility": "public"})
        (told,) = await work(sandbox, Plan(ask), tool.SpritesUrlAccess())
        true("disabled by application policy" in told, told)
        equal(await settings(), "sprite")
        (told,) = await work(sandbox, Plan(ask), tool.SpritesUrlAccess(allow_public=True))
        equal(told, "sprite URL visibility is now 'public'")
        equal((await settings(), await page()), ("public", (200, "served\n")))
    async with await t.create(url_auth="public") as sandbox:
        equal((await t.http.get(f"/v1/sprites/{name(sandbox)}")).json()["url_settings"]["auth"], "public")


@operation("an agent works with the tools")
async def agent(t):
    old, new = "    print(line.strip()[::-1], flush=True)", "    print(line.strip().upper(), flush=True)"

    def patch(*lines: str):
        return "apply_patch", "\n".join(("*** Begin Patch", *lines, "*** End Patch"))

    def session(told: str) -> int:
        return int(re.search(r"session ID (\d+)", told)[1])

    async with await t.create() as sandbox:
        plan = Plan(
            run("pwd; ls -a; exit 7"),
            patch("*** Add File: back.py", "+import sys", "+for line in sys.stdin:", f"+{old}"),
            run("printf 'abc\\n' | python3 back.py"),
            patch("*** Update File: back.py", "@@", f"-{old}", f"+{new}"),
            run("python3 back.py", keep=True),
            ("write_stdin", lambda told: {"session_id": session(told), "chars": "abc\n", "yield_time_ms": 2000}),
            run("head -c 20000 /dev/zero | tr '\\0' x", max_output_tokens=50),
        )
        told = await work(sandbox, plan, Shell(), Filesystem())
        text = "\n".join(told)
        true(re.search(r"Process exited with code 7\n.*Output:\n/workspace\n\.\n\.\.\n", text, re.DOTALL), text)
        true("\ncba\n" in text and "\nABC\n" in text, text)
        true("tokens truncated" in text and "x" * 1000 not in text, text)
        equal({one.name for one in plan.seen.tools}, {"exec_command", "write_stdin", "view_image", "apply_patch"})
        equal(output(await sandbox.exec("tail -1 back.py")), (0, new.encode(), b""))


@operation("an agent learns of the platform")
async def platform(t):
    def example(_told: str):
        """What the tool's own text, which it adds to the platform's, tells agents to run."""
        return run(re.search(r"Example:\n\n((?: {4}.*\n)+)", plan.seen.system_instructions)[1])[1]

    async with await t.create(exposed_ports=(8080,)) as sandbox:
        await sandbox.write(Path("page.txt"), io.BytesIO(b"served"))
        context = (await sandbox.exec("cat", tool.DEFAULT_SPRITES_CONTEXT_PATH, shell=False)).stdout.decode().strip()
        plan = Plan(
            run("true"),
            ("exec_command", example),
            run("sprite-env services list"),
            run("sprite-env checkpoints create --comment 'by the agent'"),
            ("list_sprite_checkpoints", {}),
        )
        told = "\n".join(await work(sandbox, plan, Shell(), tool.SpritesPlatformContext(), tool.SpritesCheckpoints()))
        framed = f"<sprites-platform-context>\n{context}\n</sprites-platform-context>"
        true(context and framed in plan.seen.system_instructions, plan.seen.system_instructions)
        true('"http_port": 8080' in told and '"running"' in told and ": by the agent" in told, told)
        endpoint = await sandbox.resolve_exposed_port(8080)
        bearer = {"Authorization": f"Bearer {os.environ['SPRITESD_TOKEN']}"}
        equal(await t.page(endpoint.host, endpoint.port, "/page.txt", **bearer), (200, "served"))


@operation("a pause until the Sprite is warm", beside=True)
async def pause(t):
    async with await t.create(idle_close_seconds=0.5) as sandbox:
        await sandbox.write(Path("kept"), io.BytesIO(b"kept"))
        counter = "n=0; while :; do n=$((n + 1)); echo $n > count; sleep 0.1; done"
        equal((await sandbox.exec(f"({counter}) >/dev/null 2>&1 & echo $!")).exit_code, 0)

        async def warm():
            await asyncio.sleep(0.5)
            return await t.status(sandbox) == "warm"

        await eventually(warm, "warm", seconds=60)
        equal(await sandbox.running(), True)
        # The tool opens its connection again, which wakes the Sprite; what ran goes on.
        before = int((await sandbox.exec("cat count")).stdout)
        equal(await t.status(sandbox), "running")
        equal((await sandbox.read(Path("kept"))).read(), b"kept")

        async def further():
            return int((await sandbox.exec("cat count")).stdout or 0) > before

        await eventually(further, "the counter to go on")


async def main(only: list[str]) -> None:
    suite = Suite()
    try:
        await run_all(suite, "", only)
    finally:
        await suite.close()


asyncio.run(main(sys.argv[1:]))
