"""The same commands over the control connection, where one WebSocket carries one command after the other."""

import io
import os

from harness import Sink, equal, eventually, operation, true

import sprites


def handle(t, box):
    """The Sprite again, by a client in control mode."""
    if not hasattr(t, "controlled"):
        t.controlled = t.connect(control_mode=True)
    sprite = t.controlled.sprite(box.name)
    true(sprite.use_control_mode() and not box.use_control_mode(), "control mode")
    return sprite


@operation("control: output and exit codes")
async def output(t):
    sprite = handle(t, await t.box())
    every = bytes(range(256)) * 5
    script = "import sys; b = bytes(range(256)) * 5; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])"
    script += "; sys.exit(3)"
    done = await t.do(sprite.run, "python3", "-c", script, capture_output=True)
    equal((done.returncode, done.stdout, done.stderr), (3, every, every[::-1]))
    for code in (0, 1, 255):
        equal((await t.do(sprite.run, "sh", "-c", f"exit {code}")).returncode, code)
    equal((await t.do(sprite.run, "sh", "-c", "kill -TERM $$")).returncode, 143)
    equal((await t.do(sprite.run, "no-such-program", capture_output=True)).returncode, 127)
    done = await t.do(sprite.run, "sh", "-c", "pwd; echo $A", cwd="/tmp", env={"A": "b c"}, capture_output=True)
    equal(done.stdout, b"/tmp\nb c\n")
    true(sprite._control_mode_supported, "never fell back to a socket for each command")
    true(await t.outside(sprite.has_control_connection), "has_control_connection")


@operation("control: stdin and 1 MB each way")
async def megabyte(t):
    sprite = handle(t, await t.box())
    data = os.urandom((1 << 20) + 17)
    equal(await t.do(sprite.command("cat", stdin=io.BytesIO(data)).output), data)
    equal(await t.do(sprite.command("cat").output), b"")
    # The stdin of one command does not reach the next.
    equal(await t.do(sprite.command("head", "-c", "3", stdin=io.BytesIO(b"abcdef")).output), b"abc")
    equal(await t.do(sprite.command("cat", stdin=io.BytesIO(b"fresh")).output), b"fresh")


@operation("control: 200 short commands on one connection")
async def short(t):
    sprite = handle(t, await t.box("controlled"))
    for number in range(200):
        done = await t.do(sprite.run, "sh", "-c", f"echo {number}; exit {number % 7}", capture_output=True)
        equal((done.returncode, done.stdout, done.stderr), (number % 7, f"{number}\n".encode(), b""))
    pools = [pool for (*_, name), pool in sprites.control._control_pools.items() if name == sprite.name]
    equal([pool.size() for pool in pools], [1])
    true(sprite._control_mode_supported, "never fell back to a socket for each command")
    await t.coroutine(sprite.close_control_connection())
    true(not await t.outside(sprite.has_control_connection), "closed")


@operation("control: terminal and resize")
async def terminal(t):
    sprite = handle(t, await t.box("controlled"))
    done = await t.do(
        sprite.run, "sh", "-c", "stty size; exit 7", tty=True, tty_rows=31, tty_cols=97, capture_output=True
    )
    equal((done.returncode, sprite._control_mode_supported), (7, True))
    connection = await t.coroutine(sprite.get_control_connection())
    script = "trap 'stty size; exit 4' WINCH; stty -echo; echo ready; read a; echo got $a; while :; do sleep 0.05; done"
    op = await t.coroutine(connection.start_op("exec", cmd=["sh", "-c", script], tty=True, rows=20, cols=60))
    await eventually(lambda: b"ready" in op.get_stdout(), "ready")
    await t.coroutine(op.write(b"line\n"))
    await t.coroutine(op.send_eof())
    await eventually(lambda: b"got line" in op.get_stdout(), "what was typed")
    await t.coroutine(op.resize(101, 41))
    equal(await t.coroutine(op.wait()), 4)
    equal(op.get_stdout(), b"ready\r\ngot line\r\n41 101\r\n")
    equal(op.get_exit_code(), 4)
    sprites.control.release_control_connection(sprite, connection)


@operation("control: signal")
async def signal(t):
    sprite = handle(t, await t.box("controlled"))
    connection = await t.coroutine(sprite.get_control_connection())
    for name, code in (("TERM", 143), ("SIGINT", 130), ("KILL", 137)):
        op = await t.coroutine(connection.start_op("exec", cmd=["sh", "-c", "echo ready; exec sleep 60"]))
        heard, infos = Sink(), []
        op.on_stdout, op.on_message = heard.write, infos.append
        await eventually(lambda: b"ready" in op.get_stdout(), "ready")
        true(not op.is_closed(), "open")
        await t.coroutine(op.signal(name))
        equal(await t.coroutine(op.wait()), code, name)
        true(op.is_closed() and op.get_stderr() == b"", op.get_stderr())
    sprites.control.release_control_connection(sprite, connection)


@operation("control: an unknown operation")
async def unknown(t):
    sprite = handle(t, await t.box("controlled"))
    connection = await t.coroutine(sprite.get_control_connection())
    op = await t.coroutine(connection.start_op("dance"))
    equal(await t.coroutine(op.wait()), -1)
    true(op.get_stderr().startswith(b"Error: ") and not op.received_exit, op.get_stderr())
    op = await t.coroutine(connection.start_op("exec", cmd=["echo", "usable"]))
    await t.coroutine(op.send_eof())
    equal((await t.coroutine(op.wait()), op.get_stdout()), (0, b"usable\n"))
    true(not connection.is_closed(), "open")
    sprites.control.release_control_connection(sprite, connection)
    await t.coroutine(connection.close())
    true(connection.is_closed(), "closed")
    op.close()
    true(op.is_closed(), "closed")


@operation("control: a failing command runs once")
async def once(t):
    box = await t.box("once")
    sprite = handle(t, box)
    done = await t.do(sprite.run, "sh", "-c", "echo ran >> ~/runs; exit 3")
    equal(done.returncode, 3)
    equal((await t.do(box.run, "cat", "runs", capture_output=True)).stdout, b"ran\n")
    await t.coroutine(sprites.control.close_control_pools(t.controlled))
    true(not await t.outside(sprite.has_control_connection), "all closed")
