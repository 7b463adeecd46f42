"""Commands on a terminal."""

from harness import Input, Sink, equal, eventually, operation, true
from sprites.exceptions import ExitError
from sprites.websocket import WSCommand


@operation("terminal: size and merged output")
async def size(t):
    box = await t.box()
    script = "stty size; tty; echo err >&2; printf 'a\\nb'"
    done = await t.do(box.run, "sh", "-c", script, tty=True, tty_rows=31, tty_cols=97, capture_output=True)
    lines = done.stdout.split(b"\r\n")
    equal((done.returncode, lines[0], lines[2:], done.stderr), (0, b"31 97", [b"err", b"a", b"b"], b""))
    true(lines[1].startswith(b"/dev/pts/"), lines)
    equal((await t.do(box.run, "stty", "size", tty=True, capture_output=True)).stdout, b"24 80\r\n")
    command = box.command("stty", "size")
    command.set_tty(True)
    command.set_tty_size(50, 132)
    equal(await t.do(command.output), b"50 132\r\n")
    try:
        command.set_tty(False)
    except RuntimeError:
        pass
    else:
        raise AssertionError("set_tty of a command that ran")


@operation("terminal: exit code")
async def exit_code(t):
    box = await t.box()
    for code in (0, 7, 127, 255):
        done = await t.do(box.run, "sh", "-c", f"echo out; exit {code}", tty=True, capture_output=True)
        equal((done.returncode, done.stdout), (code, b"out\r\n"))
    done = await t.do(box.run, "sh", "-c", "kill -TERM $$", tty=True)
    equal(done.returncode, 143)
    error = await t.raises(ExitError, box.command("sh", "-c", "exit 9", tty=True).run)
    equal(error.exit_code(), 9)


@operation("terminal: resize")
async def resize(t):
    box = await t.box()
    script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done"
    socket = WSCommand(box.command("sh", "-c", script, tty=True, tty_rows=20, tty_cols=60))
    await t.coroutine(socket.start())
    await eventually(lambda: b"ready" in socket.get_stdout(), "ready")
    await t.coroutine(socket.resize(cols=101, rows=41))
    equal(await t.coroutine(socket.wait()), 4)
    equal(socket.get_stdout(), b"ready\r\n41 101\r\n")
    await t.coroutine(socket.close())


@operation("terminal: input")
async def terminal_input(t):
    box = await t.box()
    keys, screen = Input(), Sink()
    command = box.command(
        "sh", "-c", "stty -echo; echo ready; read a; echo got $a; cat; exit 5", tty=True, stdin=keys, stdout=screen
    )
    running = t.start(command.run)
    await screen.until(b"ready")
    keys.feed(b"one\n")
    await screen.until(b"got one")
    keys.feed(b"two\n")
    await screen.until(b"two\r\n")
    # The end of input is a key; so is an interrupt.
    keys.feed(b"\x04")
    keys.end()
    try:
        await running
    except ExitError as error:
        equal(error.exit_code(), 5)
    equal(screen.getvalue(), b"ready\r\ngot one\r\ntwo\r\n")
    keys, screen = Input(), Sink()
    command = box.command("sh", "-c", "echo ready; exec sleep 60", tty=True, stdin=keys, stdout=screen)
    running = t.start(command.run)
    await screen.until(b"ready")
    keys.feed(b"\x03")
    keys.end()
    try:
        await running
    except ExitError as error:
        equal(error.exit_code(), 130)
    else:
        raise AssertionError("an interrupted command ended well")
