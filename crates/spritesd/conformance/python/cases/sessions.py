"""Sessions: listed, attached to, killed."""

from datetime import datetime, timedelta, timezone

import sprites.session
from harness import Input, Sink, absent, equal, eventually, operation, true
from sprites.exceptions import APIError, ExitError
from sprites.websocket import WSCommand

import sprites


async def session_of(t, sprite, part: str):
    """The one session whose command contains `part`."""

    async def find():
        found = [session for session in await t.do(sprite.list_sessions) if part in session.command]
        return found[0] if len(found) == 1 else None

    return await eventually(find, f"a session of {part!r}")


@operation("list sessions")
async def listed(t):
    sprite = await t.box("sessions")
    equal(await t.do(sprite.list_sessions), [])
    sockets = [
        WSCommand(sprite.command("sleep", "61")),
        WSCommand(sprite.command("sleep", "62", tty=True, cwd="/tmp")),
    ]
    for socket in sockets:
        await t.coroutine(socket.start())
    plain, terminal = await session_of(t, sprite, "sleep 61"), await session_of(t, sprite, "sleep 62")
    for session in (plain, terminal):
        true(isinstance(session.id, str) and session.id.isdecimal(), session)
        true(abs(datetime.now(timezone.utc) - session.created) < timedelta(minutes=1), session)
        true(isinstance(session.bytes_per_second, (int, float)), session)
    true(plain.id != terminal.id, "ids differ")
    equal((plain.tty, plain.workdir, terminal.tty, terminal.workdir), (False, "/home/sprite", True, "/tmp"))
    true(plain.command.endswith("sleep 61") and plain.command.startswith("/"), plain.command)
    if t.sync:
        equal({s.id for s in sprites.session.list_sessions(sprite)}, {plain.id, terminal.id})
    for socket, session in zip(sockets, (plain, terminal)):
        await t.do(sprite.run, "kill", session.id)
        equal(await t.coroutine(socket.wait()), 143)
        await t.coroutine(socket.close())

    async def empty():
        return await t.do(sprite.list_sessions) == []

    await eventually(empty, "no session is left")


@operation("attach after a disconnect")
async def attach(t):
    sprite = await t.box("attached")
    script = "stty -echo; echo before; read a; echo got $a; exit 6"
    socket = WSCommand(sprite.command("sh", "-c", script, tty=True))
    await t.coroutine(socket.start())
    await eventually(lambda: b"before" in socket.get_stdout(), "before")
    session = await session_of(t, sprite, "echo before")
    await t.coroutine(socket.close())
    # It goes on; what it said comes again, then what it says now.
    keys, screen = Input(), Sink()
    command = sprite.attach_session(session.id)
    command.stdin, command.stdout = keys, screen
    running = t.start(command.run)
    await screen.until(b"before\r\n")
    equal(command.tty, True)
    keys.feed(b"back\n")
    keys.end()
    try:
        await running
    except ExitError as error:
        equal(error.exit_code(), 6)
    equal(screen.getvalue(), b"before\r\ngot back\r\n")
    # One without a terminal: stdout and stderr stay apart, and its exit comes.
    script = "echo out; echo err >&2; until [ -e ~/go ]; do sleep 0.05; done; exit 8"
    socket = WSCommand(sprite.command("sh", "-c", script))
    await t.coroutine(socket.start())
    await eventually(lambda: socket.get_stdout() and socket.get_stderr(), "first output")
    session = await session_of(t, sprite, "echo out")
    await t.coroutine(socket.close())
    out, err = Sink(), Sink()
    command = sprite.attach_session(session.id, timeout=30)
    command.stdout, command.stderr = out, err
    running = t.start(command.run)
    await out.until(b"out\n")
    await err.until(b"err\n")
    await t.do(sprite.run, "touch", "/home/sprite/go")
    try:
        await running
    except ExitError as error:
        equal(error.exit_code(), 8)
    equal((out.getvalue(), err.getvalue()), (b"out\n", b"err\n"))


@operation("attach to an unknown session")
async def attach_unknown(t):
    sprite = await t.box("attached")
    error = await t.raises(APIError, sprite.attach_session("99999999").run)
    equal((error.status_code, str(error)), (404, "session not found: 99999999"))
    # An ended one is unknown, too.
    socket = WSCommand(sprite.command("sh", "-c", "echo here; sleep 0.3"))
    await t.coroutine(socket.start())
    session = await session_of(t, sprite, "echo here")
    await t.coroutine(socket.wait())
    await t.coroutine(socket.close())

    async def gone():
        return all(other.id != session.id for other in await t.do(sprite.list_sessions))

    await eventually(gone, "the ended session is not listed")
    equal((await t.raises(APIError, sprite.attach_session(session.id).run)).status_code, 404)


@operation("kill a session")
async def kill(t):
    if not t.sync:
        return absent((t.Sprite, "kill_session"), (t.Sprite, "kill"))
    sprite = await t.box("killed")
    for signal, code in ((None, 143), ("SIGINT", 130), ("HUP", 129), ("KILL", 137)):
        running = t.start(sprite.run, "sleep", "300")
        session = await session_of(t, sprite, "sleep 300")
        options = {"signal": signal} if signal else {}
        with await t.do(sprites.session.kill_session, sprite, session.id, timeout=5, **options) as stream:
            told = list(stream)
        equal([message.type for message in told], ["signal", "exited", "complete"])
        equal((await running).returncode, code)
    # One that does not listen is killed after the time-out.
    running = t.start(sprite.run, "sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done")
    session = await session_of(t, sprite, "trap")
    told = []
    (await t.do(sprites.session.kill_session, sprite, session.id, "SIGKILL", 1)).process_all(told.append)
    equal(told[-1].type, "complete")
    equal((await running).returncode, 137)
    error = await t.raises(APIError, sprites.session.kill_session, sprite, "99999999")
    equal((error.status_code, error.response), (404, "session not found: 99999999"))
    error = await t.raises(APIError, sprites.session.kill_session, sprite, session.id)
    equal(error.status_code, 410)
    # The events have a message, a signal and an exit code on the wire.
    true(all((message.data, message.error) == (None, None) for message in told), told)
    return "`kill_session` keeps only the types of the events: messages, signal and exit code are dropped."


@operation("lifetime after a disconnect")
async def lifetime(t):
    import inspect

    true("max_run_after_disconnect" not in inspect.signature(t.Sprite.command).parameters, "a new parameter")
    return absent((type((await t.box()).command("true")), "max_run_after_disconnect"))


@operation("a detachable session")
async def detachable(t):
    return absent((t.Sprite, "create_session"))
